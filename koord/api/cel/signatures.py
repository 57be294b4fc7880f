"""Every function that an expression may call: its overloads, with the types that they take and give.

One line an overload: the function's name, the overload's identifier, and its signature. `string . int -> bool` is a
method of strings that takes an integer; without the dot it is a function. Capital letters are type parameters.
The identifiers are cel-go's: costs are told by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from koord.api.cel.types import SIMPLE, Type, list_of, map_of, optional_of, param, type_of

QUANTITY: Final = Type("struct", "kubernetes.Quantity")
URL: Final = Type("struct", "kubernetes.URL")
SEMVER: Final = Type("struct", "kubernetes.Semver")
FORMAT: Final = Type("struct", "kubernetes.NamedFormat")
IP: Final = Type("opaque", "net.IP")
CIDR: Final = Type("opaque", "net.CIDR")
AUTHORIZER: Final = Type("struct", "kubernetes.authorization.Authorizer")
PATH_CHECK: Final = Type("struct", "kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = Type("struct", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = Type("struct", "kubernetes.authorization.ResourceCheck")
DECISION: Final = Type("struct", "kubernetes.authorization.Decision")

_NAMES: Final[Mapping[str, Type]] = {
    **SIMPLE, "quantity": QUANTITY, "url": URL, "semver": SEMVER, "format": FORMAT, "ip": IP, "cidr": CIDR,
    "authorizer": AUTHORIZER, "path_check": PATH_CHECK, "group_check": GROUP_CHECK, "resource_check": RESOURCE_CHECK,
    "decision": DECISION,
}  # fmt: skip

_ORDERED: Final = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_COMPARED_ACROSS: Final = (
    ("int", "double"), ("int", "uint"), ("uint", "double"), ("uint", "int"), ("double", "int"), ("double", "uint"),
)  # fmt: skip
_GO_NAMES: Final = {"int": "int64", "uint": "uint64"}
_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE: Final = ("int", "uint", "double", "duration")

_TABLE: Final = """
_?_:_                 conditional                    bool, A, A -> A
_&&_                  logical_and                    bool, bool -> bool
_||_                  logical_or                     bool, bool -> bool
!_                    logical_not                    bool -> bool
@not_strictly_false   not_strictly_false             bool -> bool
_==_                  equals                         A, A -> bool
_!=_                  not_equals                     A, A -> bool
_+_                   add_bytes                      bytes, bytes -> bytes
_+_                   add_double                     double, double -> double
_+_                   add_duration_duration          duration, duration -> duration
_+_                   add_duration_timestamp         duration, timestamp -> timestamp
_+_                   add_timestamp_duration         timestamp, duration -> timestamp
_+_                   add_int64                      int, int -> int
_+_                   add_list                       list(A), list(A) -> list(A)
_+_                   add_string                     string, string -> string
_+_                   add_uint64                     uint, uint -> uint
_-_                   subtract_double                double, double -> double
_-_                   subtract_duration_duration     duration, duration -> duration
_-_                   subtract_int64                 int, int -> int
_-_                   subtract_timestamp_duration    timestamp, duration -> timestamp
_-_                   subtract_timestamp_timestamp   timestamp, timestamp -> duration
_-_                   subtract_uint64                uint, uint -> uint
_*_                   multiply_double                double, double -> double
_*_                   multiply_int64                 int, int -> int
_*_                   multiply_uint64                uint, uint -> uint
_/_                   divide_double                  double, double -> double
_/_                   divide_int64                   int, int -> int
_/_                   divide_uint64                  uint, uint -> uint
_%_                   modulo_int64                   int, int -> int
_%_                   modulo_uint64                  uint, uint -> uint
-_                    negate_double                  double -> double
-_                    negate_int64                   int -> int
_[_]                  index_list                     list(A), int -> A
_[_]                  index_map                      map(A, B), A -> B
_[_]                  optional_list_index_int        opt(list(A)), int -> opt(A)
_[_]                  optional_map_index_value       opt(map(A, B)), A -> opt(B)
_[?_]                 list_optindex_optional_int             list(A), int -> opt(A)
_[?_]                 optional_list_optindex_optional_int    opt(list(A)), int -> opt(A)
_[?_]                 map_optindex_optional_value            map(A, B), A -> opt(B)
_[?_]                 optional_map_optindex_optional_value   opt(map(A, B)), A -> opt(B)
@in                   in_list                        A, list(A) -> bool
@in                   in_map                         A, map(A, B) -> bool
size                  size_bytes                     bytes -> int
size                  bytes_size                     bytes . -> int
size                  size_list                      list(A) -> int
size                  list_size                      list(A) . -> int
size                  size_map                       map(A, B) -> int
size                  map_size                       map(A, B) . -> int
size                  size_string                    string -> int
size                  string_size                    string . -> int
type                  type                           A -> type(A)
dyn                   to_dyn                         A -> dyn
bool                  bool_to_bool                   bool -> bool
bool                  string_to_bool                 string -> bool
bytes                 bytes_to_bytes                 bytes -> bytes
bytes                 string_to_bytes                string -> bytes
double                double_to_double               double -> double
double                int64_to_double                int -> double
double                string_to_double               string -> double
double                uint64_to_double               uint -> double
duration              duration_to_duration           duration -> duration
duration              int64_to_duration              int -> duration
duration              string_to_duration             string -> duration
int                   int64_to_int64                 int -> int
int                   double_to_int64                double -> int
int                   duration_to_int64              duration -> int
int                   string_to_int64                string -> int
int                   timestamp_to_int64             timestamp -> int
int                   uint64_to_int64                uint -> int
string                string_to_string               string -> string
string                bool_to_string                 bool -> string
string                bytes_to_string                bytes -> string
string                double_to_string               double -> string
string                duration_to_string             duration -> string
string                int64_to_string                int -> string
string                timestamp_to_string            timestamp -> string
string                uint64_to_string               uint -> string
string                ip_to_string                   ip -> string
string                cidr_to_string                 cidr -> string
timestamp             timestamp_to_timestamp         timestamp -> timestamp
timestamp             int64_to_timestamp             int -> timestamp
timestamp             string_to_timestamp            string -> timestamp
uint                  uint64_to_uint64               uint -> uint
uint                  double_to_uint64               double -> uint
uint                  int64_to_uint64                int -> uint
uint                  string_to_uint64               string -> uint
contains              contains_string                string . string -> bool
endsWith              ends_with_string               string . string -> bool
startsWith            starts_with_string             string . string -> bool
matches               matches                        string, string -> bool
matches               matches_string                 string . string -> bool

charAt                string_char_at_int                string . int -> string
indexOf               string_index_of_string            string . string -> int
indexOf               string_index_of_string_int        string . string, int -> int
indexOf               list_a_index_of_int               list(A) . A -> int
lastIndexOf           string_last_index_of_string       string . string -> int
lastIndexOf           string_last_index_of_string_int   string . string, int -> int
lastIndexOf           list_a_last_index_of_int          list(A) . A -> int
lowerAscii            string_lower_ascii                string . -> string
upperAscii            string_upper_ascii                string . -> string
replace               string_replace_string_string      string . string, string -> string
replace               string_replace_string_string_int  string . string, string, int -> string
split                 string_split_string               string . string -> list(string)
split                 string_split_string_int           string . string, int -> list(string)
substring             string_substring_int              string . int -> string
substring             string_substring_int_int          string . int, int -> string
trim                  string_trim                       string . -> string
format                string_format                     string . list(dyn) -> string
strings.quote         strings_quote                     string -> string
join                  list_join                         list(string) . -> string
join                  list_join_string                  list(string) . string -> string
find                  string_find_string                string . string -> string
findAll               string_find_all_string            string . string -> list(string)
findAll               string_find_all_string_int        string . string, int -> list(string)

sets.contains         list_sets_contains_list        list(T), list(T) -> bool
sets.equivalent       list_sets_equivalent_list      list(T), list(T) -> bool
sets.intersects       list_sets_intersects_list      list(T), list(T) -> bool
slice                 list_slice                     list(T) . int, int -> list(T)
flatten               list_flatten                   list(list(T)) . -> list(T)
flatten               list_flatten_int               list(dyn) . int -> list(dyn)
lists.range           lists_range                    int -> list(int)
reverse               list_reverse                   list(T) . -> list(T)
distinct              list_distinct                  list(T) . -> list(T)
cel.@mapInsert        @mapInsert_map_key_value       map(K, V), K, V -> map(K, V)
cel.@mapInsert        @mapInsert_map_map             map(K, V), map(K, V) -> map(K, V)

optional.of           optional_of                    V -> opt(V)
optional.ofNonZeroValue optional_ofNonZeroValue      V -> opt(V)
optional.none         optional_none                  -> opt(V)
optional.unwrap       optional_unwrap                list(opt(V)) -> list(V)
unwrapOpt             optional_unwrapOpt             list(opt(V)) . -> list(V)
value                 optional_value                 opt(V) . -> V
hasValue              optional_hasValue              opt(V) . -> bool
or                    optional_or_optional           opt(V) . opt(V) -> opt(V)
orValue               optional_orValue_value         opt(V) . V -> V
last                  list_last                      list(V) . -> opt(V)
first                 list_first                     list(V) . -> opt(V)

url                   string_to_url                  string -> url
isURL                 is_url_string                  string -> bool
getScheme             url_get_scheme                 url . -> string
getHost               url_get_host                   url . -> string
getHostname           url_get_hostname               url . -> string
getPort               url_get_port                   url . -> string
getEscapedPath        url_get_escaped_path           url . -> string
getQuery              url_get_query                  url . -> map(string, list(string))
quantity              string_to_quantity             string -> quantity
isQuantity            is_quantity_string             string -> bool
sign                  quantity_sign                  quantity -> int
isGreaterThan         quantity_is_greater_than       quantity . quantity -> bool
isGreaterThan         semver_is_greater_than         semver . semver -> bool
isLessThan            quantity_is_less_than          quantity . quantity -> bool
isLessThan            semver_is_less_than            semver . semver -> bool
compareTo             quantity_compare_to            quantity . quantity -> int
compareTo             semver_compare_to              semver . semver -> int
asApproximateFloat    quantity_get_float             quantity . -> double
asInteger             quantity_get_int               quantity . -> int
isInteger             quantity_is_integer            quantity . -> bool
add                   quantity_add                   quantity . quantity -> quantity
add                   quantity_add_int               quantity . int -> quantity
sub                   quantity_sub                   quantity . quantity -> quantity
sub                   quantity_sub_int               quantity . int -> quantity
semver                string_to_semver               string -> semver
semver                string_bool_to_semver          string, bool -> semver
isSemver              is_semver_string               string -> bool
isSemver              is_semver_string_bool          string, bool -> bool
major                 semver_major                   semver . -> int
minor                 semver_minor                   semver . -> int
patch                 semver_patch                   semver . -> int
ip                    string_to_ip                   string -> ip
ip                    cidr_ip                        cidr . -> ip
isIP                  is_ip                          string -> bool
ip.isCanonical        ip_is_canonical                string -> bool
family                ip_family                      ip . -> int
isUnspecified         ip_is_unspecified              ip . -> bool
isLoopback            ip_is_loopback                 ip . -> bool
isLinkLocalMulticast  ip_is_link_local_multicast     ip . -> bool
isLinkLocalUnicast    ip_is_link_local_unicast       ip . -> bool
isGlobalUnicast       ip_is_global_unicast           ip . -> bool
cidr                  string_to_cidr                 string -> cidr
isCIDR                is_cidr                        string -> bool
containsIP            cidr_contains_ip_string        cidr . string -> bool
containsIP            cidr_contains_ip_ip            cidr . ip -> bool
containsCIDR          cidr_contains_cidr_string      cidr . string -> bool
containsCIDR          cidr_contains_cidr             cidr . cidr -> bool
prefixLength          cidr_prefix_length             cidr . -> int
masked                cidr_masked                    cidr . -> cidr
validate              format-validate                format . string -> opt(list(string))
format.named          format-named                   string -> opt(format)

path                  authorizer_path                authorizer . string -> path_check
group                 authorizer_group               authorizer . string -> group_check
serviceAccount        authorizer_serviceaccount      authorizer . string, string -> authorizer
resource              groupcheck_resource            group_check . string -> resource_check
subresource           resourcecheck_subresource      resource_check . string -> resource_check
namespace             resourcecheck_namespace        resource_check . string -> resource_check
name                  resourcecheck_name             resource_check . string -> resource_check
fieldSelector         authorizer_fieldselector       resource_check . string -> resource_check
labelSelector         authorizer_labelselector       resource_check . string -> resource_check
check                 pathcheck_check                path_check . string -> decision
check                 resourcecheck_check            resource_check . string -> decision
errored               decision_errored               decision . -> bool
error                 decision_error                 decision . -> string
allowed               decision_allowed               decision . -> bool
reason                decision_reason                decision . -> string
"""

FORMAT_NAMES: Final = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)  # fmt: skip

_TIME_PARTS: Final = (
    ("getFullYear", "year"), ("getMonth", "month"), ("getDayOfYear", "day_of_year"),
    ("getDayOfMonth", "day_of_month"), ("getDate", "day_of_month_1_based"), ("getDayOfWeek", "day_of_week"),
    ("getHours", "hours"), ("getMinutes", "minutes"), ("getSeconds", "seconds"), ("getMilliseconds", "milliseconds"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overload:
    """`is_member`: it is called on its first argument."""

    id: str
    args: tuple[Type, ...]
    result: Type
    is_member: bool
    params: frozenset[str]


def _generated() -> Iterator[str]:
    relations = (("<", "less"), ("<=", "less_equals"), (">", "greater"), (">=", "greater_equals"))
    for symbol, word in relations:
        for kind in _ORDERED:
            yield f"_{symbol}_ {word}_{_GO_NAMES.get(kind, kind)} {kind}, {kind} -> bool"
        for one, other in _COMPARED_ACROSS:
            name = f"{word}_{_GO_NAMES.get(one, one)}_{_GO_NAMES.get(other, other)}"
            yield f"_{symbol}_ {name} {one}, {other} -> bool"
    for kind in _COMPARABLE:
        yield f"isSorted list_{kind}_is_sorted_bool list({kind}) . -> bool"
        yield f"max list_{kind}_max_{kind} list({kind}) . -> {kind}"
        yield f"min list_{kind}_min_{kind} list({kind}) . -> {kind}"
        name = SIMPLE[kind].name
        yield f"sort list_{name}_sort list({kind}) . -> list({kind})"
        yield f"@sortByAssociatedKeys list_{name}_sortByAssociatedKeys list(T) . list({kind}) -> list(T)"
    for kind in _SUMMABLE:
        yield f"sum list_{kind}_sum_{kind} list({kind}) . -> {kind}"
    for function, part in _TIME_PARTS:
        yield f"{function} timestamp_to_{part} timestamp . -> int"
        yield f"{function} timestamp_to_{part}_with_tz timestamp . string -> int"
        if part in ("hours", "minutes", "seconds", "milliseconds"):
            yield f"{function} duration_to_{part} duration . -> int"
    for name in FORMAT_NAMES:
        yield f"format.{name} format.{name} -> format"


def _read(lines: Iterable[str]) -> dict[str, tuple[Overload, ...]]:
    by_name: dict[str, list[Overload]] = {}
    for line in lines:
        name, identifier, text = line.split(None, 2)
        given, _, result = text.partition("->")
        target, dot, rest = given.rpartition(".")
        args = tuple(_types(target) + _types(rest))
        made = _types(result)[0]
        params = frozenset(parameter for one in (*args, made) for parameter in _params(one))
        by_name.setdefault(name, []).append(Overload(identifier, args, made, bool(dot), params))
    return {name: tuple(overloads) for name, overloads in by_name.items()}


def _types(text: str) -> list[Type]:
    """The types in a list of them: `list(A), int`."""
    stack: list[list[Type]] = [[]]
    heads: list[str] = []
    for token in re.findall(r"\w+(?=\()|\w+|\(|\)", text):
        if token == "(":
            stack.append([])
        elif token == ")":
            inner = stack.pop()
            stack[-1].append(_nested(heads.pop(), inner))
        elif token in ("list", "map", "opt") or (token == "type" and "type(" in text):
            heads.append(token)
        else:
            stack[-1].append(param(token) if token.isupper() else _NAMES[token])
    return stack[0]


def _nested(head: str, inner: list[Type]) -> Type:
    match head:
        case "list":
            return list_of(inner[0])
        case "map":
            return map_of(inner[0], inner[1])
        case "opt":
            return optional_of(inner[0])
    return type_of(inner[0])


def _params(one: Type) -> Iterator[str]:
    if one.kind == "param":
        yield one.name
    for parameter in one.params:
        yield from _params(parameter)


FUNCTIONS: Final[Mapping[str, tuple[Overload, ...]]] = _read([*filter(None, _TABLE.split("\n")), *_generated()])
