"""The resource server: from a request's token to a ``Principal``, and the challenges that say what is missing.

Claims stop here: below this package there is only the principal.
"""
