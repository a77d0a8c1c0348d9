"""The development issuer: an authorization server for one machine, to try everything without an identity provider.

It is no identity provider. It serves loopback only, is on only where the configuration has its table, and whoever can
read the sign-in code that it prints may be any of its people. Nothing outside of this package knows how it is made;
the resource server believes its tokens as it believes any issuer's, by discovery.
"""
