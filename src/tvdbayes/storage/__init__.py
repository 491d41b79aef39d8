"""Save and load fits: one file of plain arrays and a header, no pickle and no code.

`save` and `load` here know posteriors; `tvdbayes.load` adds what a formula needs.
"""

from tvdbayes._errors import StorageError
from tvdbayes.storage._archive import (
    FORMAT_VERSION,
    load,
    read_archive,
    read_record,
    replacing,
    save,
    write_archive,
    write_record,
)
from tvdbayes.storage._packed import FORMS, Form, form_of

__all__ = [
    "FORMAT_VERSION",
    "FORMS",
    "Form",
    "StorageError",
    "form_of",
    "load",
    "read_archive",
    "read_record",
    "replacing",
    "save",
    "write_archive",
    "write_record",
]
