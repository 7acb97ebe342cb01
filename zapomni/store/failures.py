"""What a failed exchange with the database says about the command: it did not run, or nobody knows.

DatabaseError
 ├── NotDone   nothing ran; the same command may be sent again
 └── Lost      the connection broke after the command was sent; it may have run
"""

from zapomni.errors import DatabaseError


class NotDone(DatabaseError):
    """Nothing ran, so the same command may be sent again."""


class Lost(DatabaseError):
    """The connection broke after the command was sent: whether it ran is unknown."""
