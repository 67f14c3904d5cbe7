"""The symbolic engine: a safe parser of answers and a ladder of equality tests, cheapest first."""
