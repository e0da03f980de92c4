"""Base model and quantity fields shared by everything a user may describe.

A field typed ``Duration`` takes text with a unit (``"30 min"``) and holds an SI float. It is written back
as text, so that ``load(dump(x)) == x``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import warnings
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import core_schema

from ettrick.sim import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

    from ettrick.sim.yamlfile import Data, Table

default: Callable[..., Any] = Field
"""A field whose default stands as in a file (``"0 s"``): it is validated like input."""

BrokenRules: TypeAlias = "Iterator[tuple[tuple[str | int, ...], str]]"
"""Keys from a model to what breaks a rule, and the rule."""


class RuleError(ValueError):
    """A rule that concerns several keys of a model, broken at one of them; `at` leads there from the model."""

    def __init__(self, at: tuple[str | int, ...], rule: str) -> None:
        super().__init__(at, rule)
        self.at = at
        self.rule = rule

    def __str__(self) -> str:
        """Return the rule alone: the place is said next to it."""
        return self.rule


def _be_strict(schema: Data, model: type[Model]) -> None:
    """Make every number and truth value in the schema of a model strict; the models in it have done so."""
    if isinstance(schema, dict):
        kind = schema.get("type")
        if kind == "model" and schema["cls"] is not model:
            return
        if kind in ("int", "float", "bool"):
            schema["strict"] = True
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            _be_strict(part, model)


_around: list[type[BaseModel]] = []
"""The model that is being built, if any: parts of it are not."""


class Model(BaseModel):
    """Frozen, closed (unknown keys are errors) and free of NaN; defaults are validated like input."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
        strict=False,
        str_strip_whitespace=True,
        # Only the model of a whole scenario is asked to validate: its parts need no validators of their own.
        defer_build=True,
    )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Convert nothing: ``true`` is not 1, the text ``"8"`` is not 8, and the text ``"no"`` is not false.

        Strictness of the whole model would also refuse a list for a tuple. A model within another one is built when a
        value of it is first validated: of what may be said, a scenario says a third.
        """
        if _around:
            writer = core_schema.plain_serializer_function_ser_schema(_built)
            name = f"{cls.__module__}.{cls.__qualname__}:{id(cls)}"  # as pydantic names a whole one
            return core_schema.no_info_plain_validator_function(cls.model_validate, ref=name, serialization=writer)
        _around.append(cls)
        try:
            schema = handler(source)
        finally:
            _around.pop()
        _be_strict(schema, cls)
        return schema

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema of a whole model for one within another, which its validator does not show."""
        whole = schema["type"] == "function-plain"
        return handler(core_schema.chain_schema([_built(cls).__pydantic_core_schema__]) if whole else schema)

    @model_validator(mode="after")
    def _follow_rules(self) -> Self:
        for at, rule in self._broken_rules():
            raise RuleError(at, rule)
        return self

    def _broken_rules(self) -> BrokenRules:
        """Yield the key at which each rule about several keys is broken, and the rule; the first one is reported."""
        yield from ()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy that has nothing of what was worked out from the original (cached properties)."""
        copy = super().model_copy(update=update, deep=deep)
        for name in copy.__dict__.keys() - type(self).model_fields.keys():
            del copy.__dict__[name]
        return copy


class Strategy(Model):
    """A named choice with its parameters; ``use`` picks the entry of a registry."""

    use: str


class OneOf:
    """Annotation of a union of models that a key distinguishes, each with a validator of its own.

    pydantic's ``Discriminator`` puts the validators of all of them into the one around them. Here a model is built when
    the key first names it: of some hundred kinds, a scenario names ten. JSON Schema and complaints are the same.

    Parameters
    ----------
    kind
        Under which other packages bring more of them (`ettrick.sim.plugins`); without it, they cannot.
    models
        The models of the union, which have to be stated with a kind: who looks for more may come before the validator.
    """

    def __init__(self, key: str, kind: str = "", models: tuple[type[BaseModel], ...] = ()) -> None:
        self._key = key
        self._kind = kind
        self._built_in = models

    @functools.cached_property
    def _models(self) -> dict[str, type[BaseModel]]:
        """The models that are built in, by name."""
        return {name: model for model in self._built_in for name in get_args(model.model_fields[self._key].annotation)}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        self._built_in = self._built_in or get_args(source)
        # The method builds the model first, if need be, which its validator does not.
        choices: dict[Any, Any] = {
            name: core_schema.no_info_plain_validator_function(model.model_validate)
            for name, model in self._models.items()
        }
        writer = core_schema.plain_serializer_function_ser_schema(_built)
        union = core_schema.tagged_union_schema(choices, self._key) if len(self._built_in) > 1 else handler(source)
        return core_schema.no_info_wrap_validator_function(self._validated, union, serialization=writer)

    def _validated(self, value: Data, validate: Data) -> Data:
        """Return the model of a value, that of another package where none that is built in has the name."""
        from ettrick.sim import plugins

        try:
            model = self._brought(value)
        except plugins.PluginError as error:
            raise RuleError((self._key,), str(error)) from None
        if model is None:
            return validate(value)
        try:
            return model.model_validate(value)
        except ValueError:  # a wrong value
            raise
        except Exception as error:
            raise RuleError((self._key,), str(plugins.fault(self._kind, self._name(value), error))) from error

    def _name(self, value: Data) -> Data:
        """Return what a value names."""
        return value.get(self._key) if isinstance(value, dict) else getattr(value, self._key, None)

    def _brought(self, value: Data) -> type[BaseModel] | None:
        """Return the model of another package that a value names, if none that is built in has the name."""
        name = self._name(value)
        if not self._kind or not isinstance(name, str) or name in self._models:
            return None
        from ettrick.sim import plugins

        alike = tuple(self._models.values())
        plugin = plugins.found().get(self._kind, {}).get(name)
        if plugin is None:
            plugins.usable(self._kind, alike)  # for the complaint to name them
            return None
        model: type[BaseModel] = plugins.load(plugin, alike)
        return model

    def others(self, value: Data) -> tuple[type[BaseModel], ...]:
        """Return the models of other packages that have been imported, with those that a value names, or its items."""
        from ettrick.sim import plugins

        for item in value if isinstance(value, list) else [value]:
            with contextlib.suppress(plugins.PluginError):
                self._brought(item)
        return tuple(plugins.loaded(self._kind).values())

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        models = self._models
        if self._kind:
            from ettrick.sim import plugins

            brought, lines = plugins.usable(self._kind, tuple(self._models.values()))
            models = models | brought
            for line in lines:
                warnings.warn(line, stacklevel=2)
        if len(set(models.values())) == 1:
            return handler(schema)
        choices = {name: _built(model).__pydantic_core_schema__ for name, model in models.items()}
        return handler(core_schema.tagged_union_schema(choices, self._key))


class Later:
    """Annotation of a model, or a choice of them, that is imported when a value of it is first validated.

    Parameters
    ----------
    module
        The module that has it.
    name
        The name by which it has it.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    @functools.cached_property
    def annotation(self) -> Any:
        """The annotation that it stands for."""
        return getattr(importlib.import_module(self._module), self._name)

    @functools.cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.annotation)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: self._adapter.validate_python(value),
            serialization=core_schema.plain_serializer_function_ser_schema(_built),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # The handler goes by the kind of a schema alone; what is in a chain it asks for all that it knows.
        return handler(core_schema.chain_schema([self._adapter.core_schema]))


def _built(model: Any) -> Any:
    """Return a model, or an instance of one, that is complete: one that was unpickled may be the first of its kind."""
    kind: Any = model if isinstance(model, type) else type(model)
    kind.model_rebuild()
    return model


def quantity_schema(dimension: units.Dimension) -> Table:
    """Return the JSON Schema of a quantity: text of a number and a unit, or a number where that has no unit."""
    text = {"type": "string", "pattern": r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*[A-Za-zµ%]"}
    number = {"type": "number", "minimum": 0, "maximum": dimension.maximum} if "" in dimension.units else {"const": 0}
    return {"anyOf": [text, number], "description": f"a {dimension.name}", "examples": [dimension.example]}


def _quantity(dimension: units.Dimension) -> tuple[Any, ...]:
    """Return the pydantic annotations of a quantity of `dimension`."""

    def parse(value: object) -> float:
        return units.parse(value, dimension)

    def show(value: float) -> str:
        return units.show(value, dimension)

    return (BeforeValidator(parse), PlainSerializer(show), WithJsonSchema(quantity_schema(dimension)))


Duration = Annotated[float, *_quantity(units.DURATION)]
Size = Annotated[float, *_quantity(units.SIZE)]
Bandwidth = Annotated[float, *_quantity(units.BANDWIDTH)]
Flops = Annotated[float, *_quantity(units.FLOPS)]
Power = Annotated[float, *_quantity(units.POWER)]
Fraction = Annotated[float, *_quantity(units.FRACTION), Field(ge=0, le=1)]

Count = Annotated[
    int,
    BeforeValidator(units.parse_count),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^\s*\+?[0-9.]+([eE][+-]?[0-9]+)?\s*(k|[KMGTPE]i|[MGTPE])?\s*$"},
            ],
            "examples": [16384, "16 Mi"],
        }
    ),
]

Rate = Annotated[
    Any,
    BeforeValidator(lambda value: value if isinstance(value, units.Rate) else units.parse_rate(value)),
    PlainSerializer(units.show_rate),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"const": 0}], "description": "a rate", "examples": ["6.5 per 1000 node-days"]}
    ),
]


def rate_of_whole(what: str, whole: str, *examples: str, may_be_zero: bool = False) -> tuple[Any, ...]:
    """Return what makes a float of a rate per second [1/s] that is not per unit.

    Parameters
    ----------
    whole
        What stands in the message about a rate per unit.
    examples
        How it is written.
    """

    def parse(value: object) -> float:
        try:
            rate = units.parse_rate(value)
        except units.UnitError as error:
            raise units.UnitError(str(error).replace("6.5 per 1000 node-days", examples[0])) from None
        if rate.of:
            raise units.UnitError(f"{whole}: write '{examples[0]}', without '{rate.of}'")
        if rate.per_second <= 0 and not may_be_zero:
            raise units.UnitError("must be above zero")
        return rate.per_second

    text: Table = {"type": "string"}
    if may_be_zero:
        text = {"anyOf": [{**text, "examples": list(examples)}, {"const": 0}]}
    return (
        BeforeValidator(parse),
        PlainSerializer(lambda per_second: units.show_rate(units.Rate(per_second, ""))),
        WithJsonSchema({**text, "description": what, "examples": list(examples)}),
    )


Weight = Annotated[float, Field(ge=0, le=1e6)]


class Profile(Model):
    """A periodic pattern of factors that multiply a value."""

    every: Duration = Field(gt=0, description="Length of the pattern, which then repeats.")
    factors: tuple[Weight, ...] = Field(
        min_length=1, max_length=10_000, description="Factors for equal parts of that time."
    )

    def _broken_rules(self) -> BrokenRules:
        if not any(self.factors):
            yield ("factors",), "give at least one above zero: nothing would ever arrive"


class Completed:
    """Annotation of a union: `complete` makes a short form whole before validation; `schema` adds it to JSON Schema."""

    def __init__(
        self,
        complete: Callable[[Data], Data],
        schema: Callable[[JsonSchemaValue, GetJsonSchemaHandler], JsonSchemaValue] = lambda whole, _: whole,
    ) -> None:
        self._complete, self._schema = complete, schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self._complete, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return self._schema(handler(schema), handler)


def named(value: Data) -> Data:
    """Return the mapping that a name alone stands for."""
    return {"use": value} if isinstance(value, str) else value


class PathError(ValueError):
    """A mistake at a place of the scenario; ``path`` leads to it, ``rule`` says what is wrong."""

    def __init__(self, path: tuple[str | int, ...], rule: str) -> None:
        super().__init__(f"{'.'.join(map(str, path))}: {rule}")
        self.path = path
        self.rule = rule

    @property
    def is_of_files(self) -> bool:
        """Whether it comes from a file that cannot be read: another time, or elsewhere, it may be readable."""
        return is_of_files(self)


def refuse_keys(scenario: Model, section: str, keys: Iterable[str], rule: str) -> None:
    """Refuse the entries of a section that state one of some keys."""
    for index, entry in enumerate(getattr(scenario, section)):
        for key in keys:
            if getattr(entry, key):
                raise PathError((section, index, key), rule)


def is_of_files(error: BaseException) -> bool:
    """Return whether an error was raised because of one of the system, such as a file that is not there."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
