"""The schema of opcodes: one of them all, told apart by OP_ID.

Source: opcodes.md.
"""

from functools import partial

import attrs

from common.opcodes.base import OpCode
from common.opcodes.registry import opcode_classes
from common.reference.fieldnotes import notes_of, summary_of
from daemons.rapid.openapi.ownforms import Schema
from daemons.rapid.openapi.schemas import Schemas


def any_opcode(schemas: Schemas) -> Schema:
    """The schema of any opcode that can be submitted here, those of plug-ins included."""
    return schemas.named(OpCode, lambda: _union(schemas))


def _union(schemas: Schemas) -> Schema:
    refs = {op_id: schemas.named(kind, partial(_one, schemas, kind)) for op_id, kind in opcode_classes().items()}
    mapping = {op_id: ref["$ref"] for op_id, ref in refs.items()}
    return {
        "description": "One operation with its parameters.",
        "oneOf": list(refs.values()),
        "discriminator": {"propertyName": "OP_ID", "mapping": mapping},
    }


def _one(schemas: Schemas, kind: type[OpCode]) -> Schema:
    if any(isinstance(field.type, str) for field in attrs.fields(kind)):
        # the module of a plug-in may have its annotations as text
        attrs.resolve_types(kind)
    notes = {name: note for base in reversed(kind.__mro__) for name, note in notes_of(base).items()}
    required = [field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING]
    return {
        "type": "object",
        "description": summary_of(kind),
        "properties": {"OP_ID": {"const": kind.OP_ID}, **schemas.properties(kind, notes)},
        "required": ["OP_ID", *required],
        "additionalProperties": False,
    }
