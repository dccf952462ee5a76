"""The sentences of explanations, forecasts and consequences. Pure."""
