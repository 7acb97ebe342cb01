"""Conversations with ChatGPT and with Claude: each becomes one memory, a transcript of what both sides said.

**ChatGPT**, ``conversations.json`` or ``conversations-000.json`` and so on: a list of objects with ``id`` or
``conversation_id``, ``title`` (may be null), ``create_time`` and ``update_time`` in seconds, ``mapping`` and
``current_node``. The mapping is a tree: node ids to ``{id, parent, children, message}``, where edits and
regenerations branch; the conversation that the person saw is the way from ``current_node`` up to the root. A
``message`` has ``author.role``, ``content`` (``content_type`` with ``parts`` or ``text``), ``recipient`` and
``metadata``. Kept is what was said: system and tool messages, calls of tools, thoughts, and messages hidden in the
conversation are not. An image leaves its place marked.

**Claude**, ``conversations.json``: a list of objects with ``uuid``, ``name``, ``created_at``, ``updated_at`` and
``chat_messages``, each with ``uuid``, ``sender`` (human or assistant), ``content`` blocks of which ``text`` ones are
kept, ``text`` where there are no blocks, ``attachments`` with ``file_name`` and ``extracted_content``, and ``files``
with ``file_name``. Newer exports have ``parent_message_uuid`` and, on the conversation,
``current_leaf_message_uuid``: then the same way up is followed.

A conversation that has grown since the last import replaces itself. One conversation is held at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zapomni.transfer.documents import values
from zapomni.transfer.records import Item, Problem, Record, checked, describe, moment_of, origin_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

CHATGPT = "chatgpt"
CLAUDE = "claude"
_SPEAKERS = {"user": "User", "human": "User", "assistant": "Assistant"}
_SAID = frozenset({"text", "multimodal_text", "code"})


def is_chatgpt(value: object) -> bool:
    """Tell whether a file's first value is a conversation with ChatGPT."""
    return isinstance(value, dict) and isinstance(value.get("mapping"), dict)


def is_claude(value: object) -> bool:
    """Tell whether a file's first value is a conversation with Claude."""
    return isinstance(value, dict) and isinstance(value.get("chat_messages"), list)


def read_chatgpt(path: Path) -> Iterator[Item]:
    """Read a file, an archive or an unpacked folder of ChatGPT's."""
    for where, value in values(path):
        if isinstance(value, Problem):
            yield value
        elif not is_chatgpt(value):
            yield Problem(where, "it is not a conversation")
        else:
            origin = {"update_time": value.get("update_time"), "model": value.get("default_model_slug")}
            name = str(value.get("conversation_id") or value.get("id") or "")
            yield _transcript(
                CHATGPT,
                where,
                name,
                value.get("title"),
                moment_of(value.get("create_time")),
                _chatgpt_turns(value),
                origin,
            )


def read_claude(path: Path) -> Iterator[Item]:
    """Read a file, an archive or an unpacked folder of Claude's."""
    for where, value in values(path):
        if isinstance(value, Problem):
            yield value
        elif not is_claude(value):
            yield Problem(where, "it is not a conversation")
        else:
            noted = ("updated_at", "model", "project_uuid", "summary")
            origin = {name: value.get(name) for name in noted}
            moment = moment_of(value.get("created_at"))
            name = str(value.get("uuid") or "")
            yield _transcript(CLAUDE, where, name, value.get("name"), moment, _claude_turns(value), origin)


def _transcript(
    source: str,
    where: str,
    name: str,
    title: object,
    moment: Any,
    turns: Iterator[tuple[str, str]],
    origin: dict[str, Any],
) -> Item:
    said = [f"{_SPEAKERS[speaker]}: {text}" for speaker, text in turns if text.strip()]
    heading = title.strip() if isinstance(title, str) else ""
    if not said:
        return Problem(where, f"nothing is said in it{f' ({heading})' if heading else ''}")
    text = "\n\n".join([f"# {heading}", *said] if heading else said)
    given = {"title": heading} if heading else {}
    metadata = describe(source, given=given, moment=moment, origin={"id": name, **origin})
    return checked(Record(text=text, metadata=metadata, key=origin_key(source, name or text), where=where))


def _branch(
    nodes: Mapping[str, dict[str, Any]], leaf: object, parent_of: Callable[[dict[str, Any]], object]
) -> list[dict[str, Any]]:
    """Return the nodes from the root to a leaf; a loop, which no sound export has, ends the way."""
    way: dict[str, dict[str, Any]] = {}
    while isinstance(leaf, str) and leaf in nodes and leaf not in way:
        way[leaf] = nodes[leaf]
        leaf = parent_of(nodes[leaf])
    return [*way.values()][::-1]


def _chatgpt_turns(conversation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    nodes = {name: node for name, node in conversation["mapping"].items() if isinstance(node, dict)}
    leaf = conversation.get("current_node")
    if leaf not in nodes:  # then the leaf that was written last
        leaf = next((name for name in reversed(nodes) if not nodes[name].get("children")), None)
    for node in _branch(nodes, leaf, lambda node: node.get("parent")):
        message = _dict(node.get("message"))
        content = _dict(message.get("content"))
        speaker = _dict(message.get("author")).get("role")
        hidden = _dict(message.get("metadata")).get("is_visually_hidden_from_conversation")
        called = message.get("recipient") not in (None, "all")
        if speaker in _SPEAKERS and content.get("content_type", "text") in _SAID and not hidden and not called:
            parts = content.get("parts")
            shown = [_part(part) for part in (parts if isinstance(parts, list) else [content.get("text")])]
            yield speaker, "\n".join(part for part in shown if part)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    kind, text = _dict(part).get("content_type"), _dict(part).get("text")
    if isinstance(text, str):  # what was said aloud comes with its transcription
        return text
    return "[image]" if kind == "image_asset_pointer" else ""


def _claude_turns(conversation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    messages = [message for message in conversation["chat_messages"] if isinstance(message, dict)]
    nodes = {str(message.get("uuid")): message for message in messages}
    leaf = conversation.get("current_leaf_message_uuid")
    if leaf in nodes:
        messages = _branch(nodes, leaf, lambda message: message.get("parent_message_uuid"))
    for message in messages:
        speaker = message.get("sender")
        if speaker not in _SPEAKERS:
            continue
        texts = [block.get("text") for block in _list(message.get("content")) if block.get("type") == "text"]
        said: list[object] = [text for text in texts if text] or [message.get("text")]
        for attachment in _list(message.get("attachments")):
            said += [f"[{attachment.get('file_name') or 'attachment'}]", attachment.get("extracted_content")]
        said += [f"[{file['file_name']}]" for file in _list(message.get("files")) if file.get("file_name")]
        yield speaker, "\n".join(text for text in said if isinstance(text, str) and text)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
