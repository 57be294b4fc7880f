"""CEL expressions, in the rules of custom resources and in the match conditions of webhooks. Needs the `cel` extra."""
