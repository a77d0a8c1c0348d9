"""Signing a shell in at the servers that it runs programs on: discovery, the browser, tokens kept and renewed.

The protocol is the SDK's OAuth client. What is here is what it leaves to a program: where tokens are kept, the loopback
address that the browser comes back to, one renewal at a time on a whole machine, and words for people. Nothing here
writes to a terminal, and no token gets into a message, a log or a repr.
"""
