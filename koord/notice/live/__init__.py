"""Where notice meets the API: it is given, waited for and withdrawn there."""
