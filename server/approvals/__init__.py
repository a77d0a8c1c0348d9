"""Where a person decides on a program: the facts of a ticket, an API, and a page for browsers.

Who may decide is ``interpreter/approvals``' to say, and what became of it the store's. Nothing here has a rule of its
own about either.
"""
