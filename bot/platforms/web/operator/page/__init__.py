"""The operator's page as static files, served to admins only: no build step, nothing from elsewhere.

It also uses files of the chat page: its words' language, its moments, its colours.
"""
