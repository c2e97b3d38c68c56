"""The kinds of servers, in a common form."""
