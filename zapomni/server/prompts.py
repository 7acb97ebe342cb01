"""Prompts that a user picks by name, and that tell a model how to use the tools well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from zapomni.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zapomni.server.dispatch import Method
    from zapomni.tools import ToolRegistry

_REMEMBER = """\
How to remember well:
- First look with search_memory whether it is known already. What has changed is corrected with update_memory, under \
the id that it has; two memories that contradict each other help nobody.
- One call of add_memory for one fact, decision or preference, in the user's own words where the words matter.
- Each must make sense alone, months from now: names instead of "he" and "it", dates instead of "yesterday".
- metadata: tags that are in use already, source for where it comes from, timestamp for when it happened.
- key, for what has one current value, such as "user/city": adding under the key again replaces it.
- Leave out passwords and keys, and what is of use only today.
Then say in one line what you remembered."""

_RECALL = """\
How to recall well:
- Ask search_memory in the words of the question. If that finds nothing, try other words, names and dates.
- Narrow it down with tags, source, date_from and date_to where the question does.
- A hit shows its best passage; get_memory reads the whole.
- Mind the dates: where memories disagree, the later one usually holds, and the user should hear of it.
- Answer from what was found, and say when it was remembered. If nothing was, say so and do not guess."""


@attrs.frozen
class PromptArgument:
    """What a user fills in."""

    name: str
    description: str
    required: bool = False


_TAGS = PromptArgument("tags", "Tags, separated by commas.")
_WORKSPACE = PromptArgument("workspace", "The workspace, if not the current one.")


@attrs.frozen
class Prompt:
    """A text with a place for what the user wants."""

    name: str
    title: str
    description: str
    needs: str
    """The tool without which it makes no sense."""
    subject: PromptArgument
    opening: str
    """Comes before the subject."""
    otherwise: str
    """Comes first where no subject is given."""
    advice: str

    @property
    def arguments(self) -> tuple[PromptArgument, ...]:
        return self.subject, _TAGS, _WORKSPACE

    def render(self, given: Mapping[str, str]) -> str:
        subject = given.get(self.subject.name)
        parts = [f"{self.opening}\n\n{subject}" if subject else self.otherwise]
        parts += [f"{name.capitalize()}: {given[name]}" for name in ("tags", "workspace") if given.get(name)]
        return "\n\n".join([*parts, self.advice])


PROMPTS = (
    Prompt(
        name="remember",
        title="Remember",
        description="Keep a text, or what matters of this conversation, for later ones.",
        needs="add_memory",
        subject=PromptArgument("text", "What to remember; without it, what matters of the conversation."),
        opening="Remember this for later conversations:",
        otherwise="Go through this conversation and remember what later ones will need.",
        advice=_REMEMBER,
    ),
    Prompt(
        name="recall",
        title="Recall",
        description="Answer a question from what was remembered.",
        needs="search_memory",
        subject=PromptArgument("question", "What you want to know.", required=True),
        opening="Answer this from memory:",
        otherwise="",
        advice=_RECALL,
    ),
)


@attrs.frozen
class Prompts:
    """Lists and fills in the prompts whose tools are offered."""

    registry: ToolRegistry

    def methods(self) -> dict[str, Method]:
        return {"prompts/list": self.list, "prompts/get": self.get}

    def offered(self) -> tuple[Prompt, ...]:
        return tuple(prompt for prompt in PROMPTS if self.registry.get_tool(prompt.needs))

    async def list(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "prompts": [
                {
                    "name": prompt.name,
                    "title": prompt.title,
                    "description": prompt.description,
                    "arguments": [attrs.asdict(argument) for argument in prompt.arguments],
                }
                for prompt in self.offered()
            ]
        }

    async def get(self, params: Mapping[str, Any]) -> dict[str, Any]:
        prompt = self.find(params.get("name"))
        text = prompt.render(_filled_in(prompt, params.get("arguments") or {}))
        return {
            "description": prompt.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }

    def find(self, name: object) -> Prompt:
        """Return the prompt of a name; raises `ValidationError`."""
        for prompt in self.offered():
            if prompt.name == name:
                return prompt
        raise ValidationError(f"there is no such prompt; there are: {', '.join(each.name for each in self.offered())}")


def _filled_in(prompt: Prompt, given: object) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValidationError("arguments must be an object of strings")
    names = {argument.name for argument in prompt.arguments}
    needed = {argument.name for argument in prompt.arguments if argument.required}
    problems = [f"field required: {name}" for name in sorted(needed) if not given.get(name)]
    problems += [f"unexpected field: {name}" for name in sorted(given.keys() - names)]
    if problems:
        raise ValidationError("; ".join(problems))
    return given
