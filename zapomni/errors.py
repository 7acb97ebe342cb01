"""Every error that Zapomni raises on purpose.

ZapomniError
 ├── ConfigError          a setting, a file or the machine is not as it must be; says what to change
 ├── ValidationError      the caller's input is wrong; the message is for the caller
 ├── NotFoundError        the id, key or workspace named does not exist; the message is for the caller
 ├── DatabaseError        the store could not be reached, or refused; worth trying again
 │    ├── OutdatedError   what a change was made from is no longer there
 │    └── BlockedError    it will not work until somebody does what the message says
 └── ProcessingError      the text could not be processed
      └── EmbeddingError  the embedding model failed or cannot be reached

The class is the code and ``__cause__`` the detail. Messages of `ConfigError`, `ValidationError`, `NotFoundError` and
`BlockedError` are written for the person or the model that reads them; the text of the others stays in the log.
"""


class ZapomniError(Exception):
    """The root of the tree; catching it catches everything that Zapomni raises on purpose."""


class ConfigError(ZapomniError):
    """A setting, a file or the machine is not as it must be."""


class ValidationError(ZapomniError):
    """The caller's input is wrong."""


class NotFoundError(ZapomniError):
    """What the caller named does not exist."""


class DatabaseError(ZapomniError):
    """The store could not be reached, or refused."""


class OutdatedError(DatabaseError):
    """What a change was made from is no longer there."""


class BlockedError(DatabaseError):
    """The store will not work until somebody does what the message says: a full disk, a damaged file."""


class ProcessingError(ZapomniError):
    """The text could not be processed."""


class EmbeddingError(ProcessingError):
    """The embedding model failed or cannot be reached."""
