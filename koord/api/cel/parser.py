"""From the text of a CEL expression to its tree.

The grammar is cel-go's. Faults are told as its parser tells them: one token too many is passed over, one that is
missing is thought there, and anything else ends the reading.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Final

from koord.api.cel import lexer, literals, macros
from koord.api.cel.lexer import EOF, KINDS, Token, shown_kind
from koord.api.cel.syntax import (
    Call,
    CompileError,
    Entry,
    Expr,
    Ident,
    Issue,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)

_LONGEST: Final = 100_000
_DEEPEST: Final = 250
_TOO_DEEP: Final = f"expression recursion limit exceeded: {_DEEPEST}"

RESERVED: Final = frozenset(
    {"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"}
    | {"package", "namespace", "null", "return", "true", "var", "void", "while"}
)
_OPERAND: Final = frozenset(
    {"[", "{", "(", ".", "-", "!", "true", "false", "null"}
    | {"NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER"}
)
_LEVELS: Final = (
    frozenset({"<", "<=", ">=", ">", "==", "!=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
_CONTINUES: Final = frozenset().union(*_LEVELS) | {"&&", "||", "?", ".", "["}
"What can come after an operand without ending the expression."
_OPERATORS: Final = {"in": "@in"}


class _Lost(Exception):
    """The text here is invalid; the reader of the expression around it goes on behind it."""


def parse(source: str, *, binds: bool = False) -> Expr:
    """The tree of an expression. Raises CompileError. `binds`: whether there is `cel.bind`, which not all have."""
    if len(source) > _LONGEST:
        text = f"expression code point size exceeds limit: size: {len(source)}, limit {_LONGEST}"
        raise CompileError(source, [Issue(None, text)])
    tokens, issues = lexer.tokens(source)
    reader = _Parser(source, tokens, issues, binds=binds)
    try:
        tree = reader.whole()
    except _Lost:
        raise CompileError(source, reader.issues) from None
    except RecursionError:
        raise CompileError(source, [Issue(None, _TOO_DEEP)]) from None
    if reader.issues:
        raise CompileError(source, reader.issues)
    return tree


class _Parser:
    def __init__(self, source: str, tokens: list[Token], issues: list[Issue], *, binds: bool) -> None:
        self._source = source
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._ends = [frozenset({EOF})]
        "What can come after the expression that is being read, and after each that it is within."
        self._recovered_at = -1
        self._is_lost = self._was_lost = False
        "After a fault, no further one is told until something fits again."
        self._numbers = itertools.count(1)
        self.issues = issues
        self._macros = macros.Expander(self._number, self._fault, binds=binds)

    def whole(self) -> Expr:
        tree = self._expr()
        self._take(EOF, frozenset())
        return tree

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    @property
    def _kind(self) -> str:
        return self._tokens[self._at].kind

    def _after(self, ahead: int = 1) -> str:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)].kind

    def _next(self) -> Token:
        token = self._token
        self._is_lost = False
        if token.kind != EOF:
            self._at += 1
        return token

    def _number(self) -> int:
        return next(self._numbers)

    def _fault(self, at: int, text: str) -> Expr:
        """A fault of something that could be read; of what is left after others nothing is told."""
        if not self._was_lost:
            self.issues.append(Issue(at, text))
        return Literal(self._number(), at, None, "null_type")

    def _syntax(self, text: str) -> None:
        if not self._is_lost:
            self.issues.append(Issue(self._token.at, f"Syntax error: {text}"))
        self._is_lost = self._was_lost = True

    def _recover(self) -> None:
        """Skip tokens that no enclosing rule can continue with."""
        ends = _CONTINUES.union(*self._ends)
        if self._at == self._recovered_at and self._kind != EOF:
            self._at += 1
        while self._kind not in ends and self._kind != EOF:
            self._at += 1
        self._recovered_at = self._at

    def _sync(self, expected: frozenset[str]) -> None:
        """Be at one of the expected tokens, after passing over at most one other."""
        if self._kind in expected:
            return
        listed = _listed(expected)
        if self._kind != EOF and self._after() in expected:
            self._syntax(f"extraneous input '{self._token.text}' expecting {listed}")
            self._at += 1
            return
        self._syntax(f"mismatched input '{self._token.text}' expecting {listed}")
        raise _Lost

    def _close(self, kind: str) -> Token:
        """The token that ends an operand."""
        return self._take(kind, _CONTINUES | self._ends[-1])

    def _within(self, *ends: str) -> Expr:
        """An expression that ends with one of these."""
        self._ends.append(frozenset(ends))
        expr = self._expr()
        self._ends.pop()
        return expr

    def _no_alternative(self, start: Token) -> None:
        """From where alternatives were open, up to where none is left."""
        token = self._token
        end = start.at + len(start.text) if token.kind == EOF else token.at + len(token.text)
        self._syntax(f"no viable alternative at input '{self._source[start.at : end]}'")

    def _take(self, kind: str, follow: frozenset[str]) -> Token:
        """The token of a kind. If it is missing, and what is here may follow it, it is thought there."""
        if self._kind != kind and not (self._kind != EOF and self._after() == kind) and self._kind in follow:
            self._syntax(f"missing {shown_kind(kind)} at '{self._token.text}'")
            return self._token
        self._sync(frozenset({kind}))
        return self._next()

    def _expr(self) -> Expr:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise RecursionError
        condition = self._logical("||", "_||_")
        if self._kind == "?":
            operator = self._next()
            self._ends.append(frozenset({":"}))
            then = self._logical("||", "_||_")
            self._ends.pop()
            try:
                self._take(":", _OPERAND)
            except _Lost:
                self._recover()
                self._depth -= 1
                return condition
            condition = self._call(operator.at, "_?_:_", None, [condition, then, self._expr()])
        self._depth -= 1
        return condition

    def _logical(self, symbol: str, function: str) -> Expr:
        """A chain of && or ||, as a balanced tree."""
        terms, ats = [self._below(symbol)], []
        while self._kind == symbol:
            ats.append(self._next().at)
            terms.append(self._below(symbol))
        numbers = [self._number() for _ in ats]

        def balanced(low: int, high: int) -> Expr:
            middle = (low + high + 1) // 2
            left = terms[middle] if middle == low else balanced(low, middle - 1)
            right = terms[middle + 1] if middle == high else balanced(middle + 1, high)
            return Call(numbers[middle], ats[middle], function, None, [left, right])

        return balanced(0, len(ats) - 1) if ats else terms[0]

    def _below(self, symbol: str) -> Expr:
        return self._logical("&&", "_&&_") if symbol == "||" else self._binary(0)

    def _binary(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._kind in _LEVELS[level]:
            operator = self._next()
            right = self._binary(level + 1)
            function = _OPERATORS.get(operator.kind, f"_{operator.kind}_")
            left = self._call(operator.at, function, None, [left, right])
        return left

    def _unary(self) -> Expr:
        return self._or_nothing(self._operand)

    def _operand(self) -> Expr:
        self._sync(_OPERAND)
        kind = self._kind
        if kind not in ("!", "-") or (kind == "-" and self._after() in ("NUM_INT", "NUM_FLOAT")):
            return self._member()
        first, count = self._token, 0
        while self._kind == kind:
            self._next()
            count += 1
        if kind == "-" and self._kind not in _OPERAND:
            self._no_alternative(first)
            self._is_lost = False
        elif self._kind == EOF:
            self._syntax(f"extraneous input '{EOF}' expecting {_listed(_OPERAND)}")
            raise _Lost
        self._sync(_OPERAND)
        operand = self._member()
        return operand if count % 2 == 0 else self._call(first.at, f"{kind}_", None, [operand])

    def _member(self) -> Expr:
        expr = self._or_nothing(self._primary)
        while self._kind in (".", "["):
            operator = self._next()
            step = self._selected if operator.kind == "." else self._indexed
            expr = self._or_nothing(partial(step, expr, operator))
            if self._is_lost:
                break
        return expr

    def _or_nothing(self, read: Callable[[], Expr]) -> Expr:
        """What is read; or null, behind what could not be."""
        at, ends = self._token.at, len(self._ends)
        try:
            return read()
        except _Lost:
            del self._ends[ends:]
            self._recover()
            return Literal(self._number(), at, None, "null_type")

    def _indexed(self, expr: Expr, operator: Token) -> Expr:
        self._sync(_OPERAND | {"?"})
        is_optional = self._kind == "?"
        if is_optional:
            self._next()
        index = self._within("]")
        self._close("]")
        return self._call(operator.at, "_[?_]" if is_optional else "_[_]", None, [expr, index])

    def _selected(self, expr: Expr, operator: Token) -> Expr:
        is_optional = self._kind == "?"
        if is_optional:
            self._next()
        token = self._token
        if token.kind == "ESC_IDENTIFIER":
            self._next()
            return self._fault(token.at, "unsupported syntax: '`'")
        if token.kind != "IDENTIFIER":
            if is_optional:
                self._syntax(f"mismatched input '{token.text}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}")
                self.issues.append(Issue(token.at, "unsupported ident kind"))
            elif token.kind in ("true", "false", "null"):
                self._syntax(f"mismatched input '{token.text}' expecting IDENTIFIER")
            else:
                self._no_alternative(operator)
            raise _Lost
        self._next()
        if is_optional:
            name = Literal(self._number(), token.at, token.text, "string")
            return Call(self._number(), operator.at, "_?._", None, [expr, name])
        if self._kind == "(":
            opening = self._next()
            return self._call(opening.at, token.text, expr, self._arguments())
        return Select(self._number(), operator.at, expr, token.text)

    def _arguments(self) -> list[Expr]:
        self._sync(_OPERAND | {")"})
        args: list[Expr] = []
        if self._kind != ")":
            args.append(self._within(",", ")"))
            while self._kind == ",":
                self._next()
                args.append(self._within(",", ")"))
        self._close(")")
        return args

    def _primary(self) -> Expr:
        token = self._token
        if token.kind == "IDENTIFIER" or (token.kind == "." and self._after() == "IDENTIFIER"):
            return self._named()
        match token.kind:
            case "(":
                self._next()
                inner = self._within(")")
                self._close(")")
                return inner
            case "[":
                return self._list()
            case "{":
                return self._map()
            case ".":
                self._next()
                self._no_alternative(token)
                raise _Lost
        return self._literal()

    def _named(self) -> Expr:
        start = self._token
        dot = "." if start.kind == "." else ""
        if dot:
            self._next()
        if self._is_struct():
            return self._struct(dot)
        name = self._next()
        if name.text in RESERVED:
            fault = self._fault(start.at, f"reserved identifier: {name.text}")
            if self._kind == "(":
                self._next()
                self._arguments()
            return fault
        if self._kind == "(":
            opening = self._next()
            return self._call(opening.at, dot + name.text, None, self._arguments())
        return Ident(self._number(), name.at, dot + name.text)

    def _is_struct(self) -> bool:
        ahead = 1
        while self._after(ahead) == "." and self._after(ahead + 1) == "IDENTIFIER":
            ahead += 2
        return self._after(ahead) == "{"

    def _struct(self, dot: str) -> Expr:
        names = [self._next().text]
        while self._kind == ".":
            self._next()
            names.append(self._next().text)
        opening = self._next()
        values: list[Expr] = []
        field = frozenset({"?", "IDENTIFIER", "ESC_IDENTIFIER"})
        self._sync(field | {"}", ","})
        while self._kind in field:
            if self._kind == "?":
                self._next()
            self._sync(field - {"?"})
            self._next()
            self._take(":", _OPERAND)
            values.append(self._within(",", "}"))
            self._comma_or("}")
        self._close("}")
        return StructExpr(self._number(), opening.at, dot + ".".join(names), values)

    def _comma_or(self, closing: str) -> None:
        self._sync(frozenset({",", closing}))
        if self._kind == ",":
            self._next()

    def _list(self) -> Expr:
        opening, number = self._next(), self._number()
        items: list[Expr] = []
        optional: set[int] = set()
        self._sync(_OPERAND | {"?", ",", "]"})
        if self._kind == ",":
            self._next()
        else:
            while self._kind != "]":
                if self._kind == "?":
                    optional.add(len(items))
                    self._next()
                items.append(self._within(",", "]"))
                self._comma_or("]")
        self._close("]")
        return ListExpr(number, opening.at, items, frozenset(optional))

    def _map(self) -> Expr:
        opening, number = self._next(), self._number()
        entries: list[Entry] = []
        self._sync(_OPERAND | {"?", ",", "}"})
        if self._kind == ",":
            self._next()
        else:
            while self._kind != "}":
                is_optional = self._kind == "?"
                if is_optional:
                    self._next()
                key = self._within(":")
                colon = self._take(":", _OPERAND)
                value = self._within(",", "}")
                entries.append(Entry(self._number(), colon.at, key, value, is_optional))
                self._comma_or("}")
        self._close("}")
        return MapExpr(number, opening.at, entries)

    def _literal(self) -> Expr:
        self._sync(_OPERAND)
        first = token = self._next()
        if first.kind == "-":
            token = self._next()
        try:
            value, kind = literals.read(token, is_negative=first.kind == "-")
        except ValueError as error:
            return self._fault(first.at, str(error))
        return Literal(self._number(), first.at, value, kind)

    def _call(self, at: int, function: str, target: Expr | None, args: list[Expr]) -> Expr:
        expanded = self._macros.expand(at, function, target, args)
        return expanded if expanded is not None else Call(self._number(), at, function, target, args)


def _listed(kinds: frozenset[str]) -> str:
    names = [shown_kind(kind) for kind in KINDS if kind in kinds]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"
