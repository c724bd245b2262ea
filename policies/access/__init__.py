"""`access`: who may do what. Default deny, over every API that Sluice offers."""
