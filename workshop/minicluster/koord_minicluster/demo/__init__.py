"""The co-location story of `koord up --demo`: a seeded scenario, what becomes of it, and what it comes to.

`scenario` has the objects, `settings` the components' configuration and the load, `story` says what is submitted when.
`ledger` keeps what was seen, `summary` adds it up, `simulated` works out what the same load gives without co-location,
and `page` writes it all as HTML. `live` applies the story to a cluster and watches it.
"""
