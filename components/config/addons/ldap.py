"""Configuration of an LDAP directory whose users are the cluster's."""

from collections.abc import Iterator

from components.config.accounting import AuthoritySecret, PasswordSecret
from components.config.model import Model, setting
from components.config.pods.resources import LdapResources
from components.config.rule import Violation, rule
from components.config.values.quantities import Duration
from components.config.values.users import DistinguishedName, LdapFilter, LdapUri
from contract import policies


class Ldap(Model):
    """An LDAP directory. Its users and groups become those of the jail, and leave it when they leave the directory."""

    uri: LdapUri | None = setting(
        "ldaps://HOST[:PORT], or ldap://HOST[:PORT] for StartTLS; never without TLS. Left out: users are made in the "
        "jail alone.",
        default=None,
    )
    base: DistinguishedName | None = setting(
        "Entry below which users and groups are looked up; needed with uri.", default=None
    )
    bind_dn: DistinguishedName | None = setting(
        "Entry to bind as; it only needs to read. Left out: an anonymous bind.", default=None
    )
    bind_password_secret: PasswordSecret | None = setting("Secret with the password of bindDn.", default=None)
    ca_secret: AuthoritySecret | None = setting(
        "Where the CA is that must have signed the server's certificate; left out: one that everybody trusts.",
        default=None,
    )
    user_filter: LdapFilter = setting(
        "Filter for users; their entries need uid, uidNumber, gidNumber and homeDirectory.",
        default="(objectClass=posixAccount)",
    )
    group_filter: LdapFilter = setting(
        "Filter for groups; their entries need cn and gidNumber.", default="(objectClass=posixGroup)"
    )
    interval: Duration = setting(
        "Time between two queries: a user who left can still log in for so long.",
        unit="s, m or h",
        default=f"{policies.LDAP_SECONDS // 60}m",
    )
    resources: LdapResources = setting("What the pod that asks the LDAP server needs.", factory=LdapResources)

    @rule
    def _address(self) -> Iterator[Violation]:
        if self.given and self.uri is None:
            yield Violation("uri", want="the directory's address, such as ldaps://ldap.example.org")
        if self.uri is not None and self.base is None:
            yield Violation("base", want="the entry below which people are, such as dc=example,dc=org")

    @rule
    def _password(self) -> Iterator[Violation]:
        if self.bind_dn is not None and self.bind_password_secret is None:
            yield Violation("bindPasswordSecret", want="the Secret with the password of bindDn")
        if self.bind_password_secret is not None and self.bind_dn is None:
            yield Violation("bindDn", want="whose password bindPasswordSecret is")

    @property
    def is_on(self) -> bool:
        """Return whether an LDAP directory is followed."""
        return self.uri is not None
