"""Wrong values of what all nodes share: the jail, its users, accounting, certificates and images."""

from __future__ import annotations

from typing import Any

from tests.unit.samples import SSH_KEY

DIRECTORY = {"uri": "ldaps://ldap.example", "base": "dc=example,dc=org"}
USER = {"name": "alice", "sshPublicKeys": [SSH_KEY]}

WRONG_SERVICES: list[tuple[str, Any, str]] = [
    # Unknown keys at any depth.
    ("bogus", 1, "pulumi-slurm:bogus: got 1; want no such key (known here: cluster, kubernetes, images"),
    ("cluster.nmae", "x", "pulumi-slurm:cluster.nmae: got 'x'; want no such key (did you mean name?"),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "port": 1},
        "pulumi-slurm:jail.storage.nfs.port: got 1; want no",
    ),
    *(
        (
            "jail.storage.nfs",
            {"server": "a", "path": "/b", "mountOptions": ["sec=krb5p", option]},
            f"pulumi-slurm:jail.storage.nfs.mountOptions[1]: got '{option}'; want one mount option such as rsize=",
        )
        for option in ("nolock", "soft", "vers=3", "v4.1", "lookupcache=all", "actimeo=60", "acdirmax=9", "ro", "a,b")
    ),
    ("jail.storage.nfs", {"server": "a", "path": "//"}, "nfs.path: got '//'; want an absolute path such as /data"),
    ("jail.storage.nfs", {"server": "a", "path": "/b", "version": "2"}, "nfs.version: got '2'; want one of '3', '4'"),
    ("jail.storage.nfs", {"server": "a", "path": "/b", "version": 5}, "nfs.version: got '5'; want one of '3', '4'"),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "lookupCache": "off"},
        "want one of 'positive', 'none' or 'all'",
    ),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "attributeCacheSeconds": 0},
        "pulumi-slurm:jail.storage.nfs.attributeCacheSeconds: got 0; want 1 or more",
    ),
    (
        "jail.storage.nfs",
        {"server": "a", "path": "/b", "connections": 17},
        "pulumi-slurm:jail.storage.nfs.connections: got 17; want 16 or less",
    ),
    (
        "login.sets",
        [{"name": "a", "submounts": {"path": "/x"}}],
        'login.sets[0].submounts: got {"path": "/x"}; want a l',
    ),
    ("login.users", [{**USER, "shell": "zsh"}], "pulumi-slurm:login.users[0].shell: got 'zsh'; want no such key"),
    (
        "login.users",
        [{**USER, "admin": True, "operator": True}],
        "pulumi-slurm:login.users[0].operator: got true; want one of admin and operator",
    ),
    ("login.resources.cpu", "many", "pulumi-slurm:login.resources.cpu: got 'many'; want a Kubernetes CPU quantity"),
    ("timeouts.available", "30", "pulumi-slurm:timeouts.available: got '30'; want a duration such as 90s, 30m or 2h"),
    ("cluster", "dev", "pulumi-slurm:cluster: got 'dev'; want a map of keys to values"),
    ("login.service.type", "ClusterIP", "want one of 'LoadBalancer' or 'NodePort'"),
    ("networkPolicies.enabled", "maybe", "want true or false"),
    ("images.pullPolicy", "Sometimes", "want one of 'Always', 'IfNotPresent' or 'Never'"),
    ("login.service.loadBalancerSourceRanges", ["10.0.0.1/8"], "want an address range such as 192.0.2.0/24"),
    # Names.
    ("cluster.name", "Research!", "pulumi-slurm:cluster.name: got 'Research!'; want a DNS label"),
    ("cluster.namespace", "a.b", "pulumi-slurm:cluster.namespace: got 'a.b'; want a DNS label"),
    ("checks.cluster", "sometimes", "pulumi-slurm:checks.cluster: got 'sometimes'; want true or false"),
    ("checks.nodes", True, "pulumi-slurm:checks.nodes: got true; want no such key"),
    # Images that can change.
    ("images.slurm", "slurm", "pulumi-slurm:images.slurm: got 'slurm'; want an image that cannot change"),
    ("images.slurm", "slurm:latest", "want an image that cannot change"),
    ("images.slurm", "slurm:v1.2", "want an image that cannot change"),
    ("jail.image", "registry.example:5000/jail", "pulumi-slurm:jail.image: got 'registry.example:5000/jail'; want an"),
    ("jail.image", "jail@sha256:abc", "want an image reference"),
    ("jail.image", "ja il:0123abcd", "want an image reference"),
    ("images.operator", None, "pulumi-slurm:images.operator: got nothing; want the operator's image, or operator.mode"),
    # Storage.
    ("jail.storage", {"hostPath": "/a", "className": "b"}, 'got ["hostPath", "className"]; want one of them'),
    ("jail.storage.hostPath", "a/../b", "want an absolute path"),
    ("jail.persistent", ["/home", "/home/a"], "pulumi-slurm:jail.persistent[1]: got '/home/a'; want no path inside"),
    ("jail.persistent", ["/home", "/home"], "want each path once"),
    ("jail.persistent", ["/opt/slurm"], "got '/opt/slurm'; want a path outside of /opt/slurm, which is Slurm's own"),
    ("jail.persistent", ["/var/spool/slurmd/x"], "want a path outside of /var/spool/slurmd, which is Slurm's own"),
    ("jail.persistent", ["/home/../etc"], "want an absolute path such as /data"),
    ("jail.persistent", ["home"], "want an absolute path such as /data"),
    ("jail.persistent", ["/a/b", "/a"], "want no path inside another one: /a holds it already"),
    ("jail.tmpSize", "10", "pulumi-slurm:jail.tmpSize: got '10'; want a Kubernetes quantity such as 64Gi"),
    ("jail.persistent", ["/usr/local"], "outside of /usr: the system's own come from the image"),
    ("jail.persistent", ["/var"], "pulumi-slurm:jail.persistent[0]: got '/var'; want a folder of people's files, such"),
    *(
        ("jail.persistent", [f"/{name}"], f"got '/{name}'; want a path of people's files, outside of /{name}: the sys")
        for name in (
            "boot",
            "lib32",
            "libx32",
            "bin",
            "dev",
            "etc",
            "lib",
            "lib64",
            "proc",
            "run",
            "sbin",
            "sys",
            "tmp",
        )
    ),
    # Certificates.
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "passwordSecret": {"name": "b"}, "caSecret": {"key": "c"}}},
        "pulumi-slurm:accounting.external.caSecret.name: got nothing; want",
    ),
    ("certificates.mode", "on", "want one of 'install', 'existing' or 'off'"),
    (
        "rest.tls",
        True,
        "pulumi-slurm:rest.tls: got true; want nothing, or certificates.mode: install or existing",
    ),
    ("rest.tls", "maybe", "pulumi-slurm:rest.tls: got 'maybe'; want true or false"),
    ("certificates", {"issuer": {"name": "corp"}}, "want nothing while certificates.mode is off"),
    ("certificates", {"mode": "existing", "version": "v1.2.3"}, "want nothing with certificates.mode existing"),
    ("certificates", {"mode": "existing", "issuer": {}}, "pulumi-slurm:certificates.issuer.name: got nothing; want"),
    ("certificates", {"mode": "existing", "issuer": {"name": "a", "kind": "Vault"}}, "want one of 'Issuer' or 'Clu"),
    ("certificates", {"mode": "existing", "duration": "90d"}, "certificates.duration: got '90d'; want a duration such"),
    ("certificates", {"mode": "existing", "duration": "30m", "renewBefore": "1m"}, "want 1h or more: cert-manager"),
    (
        "certificates",
        {"mode": "existing", "duration": "24h"},
        "pulumi-slurm:certificates.renewBefore: got '720h'; want less than certificates.duration (24h)",
    ),
    ("certificates", {"mode": "install", "version": "the newest"}, "want a version such as"),
    ("operator.watchNodes", "perhaps", "pulumi-slurm:operator.watchNodes: got 'perhaps'; want true or false"),
    # Accounting.
    ("accounting.mode", "mysql", "want one of 'mariadb', 'external' or 'off'"),
    ("images.database", None, "pulumi-slurm:images.database: got nothing; want MariaDB's image, or another accounting"),
    ("accounting", {"mode": "external"}, "accounting.external: got nothing; want connection, or host with password"),
    (
        "accounting",
        {"mode": "external", "external": {}},
        "pulumi-slurm:accounting.external.host: got nothing; want the server's name, or connection",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a"}},
        "pulumi-slurm:accounting.external.passwordSecret: got nothing; want a Secret",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"connection": "mysql://a:b@c/d", "port": 3307}},
        "pulumi-slurm:accounting.external.port: got 3307; want nothing: connection says it already",
    ),
    *(
        (
            "accounting",
            {"mode": "external", "external": {"connection": text}},
            "pulumi-slurm:accounting.external.connection: got '[secret]'; want mysql://user:password@host:port/database",
        )
        for text in (
            "postgres://a:b@c/d",
            "mysql://a:b@c:port/d",
            "mysql://a@c/d",
            "mysql://a:b@c",
            "mysql://a:b@/d",
            "mysql://a:b@c/d?ssl=1",
            "mysql://a:b@c/d%20e",
            "mysql://a b:c@d/e",
            "a:b@c",
        )
    ),
    (
        "accounting",
        {"mode": "external", "external": {"connection": "mysql://a:@c/d"}},
        "want a password: slurmdbd takes an empty one for none",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"connection": "mysql://a:%20%22@c/d"}},
        "got '[secret]'; want a password that begins and ends with no space",
    ),
    (
        "accounting",
        {"mode": "off", "enforce": ["limits"]},
        'pulumi-slurm:accounting.enforce: got ["limits"]; want nothing: accounting.mode is off',
    ),
    (
        "accounting",
        {"mode": "mariadb", "external": {"connection": "mysql://a:hunter2@c/d"}},
        "accounting.external: got '[secret]'; want nothing: accounting.mode is mariadb, and this is for ext",
    ),
    (
        "accounting",
        {"mode": "external", "storage": {}, "external": {"connection": "mysql://a:b@c/d"}},
        "pulumi-slurm:accounting.storage: got {}; want nothing: accounting.mode is external, and this is for mariadb",
    ),
    (
        "accounting.retention",
        {"jobs": "1 year"},
        "want a number of hours, days or months as Slurm writes it",
    ),
    ("jail.keepRoots", 0, "jail.keepRoots: got 0; want 1 or more"),
    ("login.grace", "soon", "login.grace: got 'soon'; want a duration such as"),
    ("accounting.retention", {"jobs": "0days"}, "want a number of hours, days or months"),
    *(
        ("accounting.options", {key: value}, f"pulumi-slurm:accounting.options.{key}: got {got}; want {want}")
        for key, value, got, want in (
            ("TrackWcKeys", "yes", "'TrackWcKeys'", "a key of slurmdbd.conf that Slurm 26.05 knows; did you mean Tr"),
            ("trackwckey", "yes", "'trackwckey'", "another key: TrackWCKey is set by this program, it is that of slur"),
            ("PurgeJobAfter", "1month", "'PurgeJobAfter'", "accounting.retention.jobs in its place, which sets Purge"),
            ("ArchiveScript", "/x", "'ArchiveScript'", "no ArchiveScript: slurmdbd would run it in its own pod"),
            ("commitdelay", 1, "'commitdelay'", "CommitDelay, as Slurm writes it"),
            ("CommitDelay", 65_534, "65534", "a whole number of seconds, from 1 to 65533"),
            ("TCPTimeout", "0", "'0'", "a whole number of seconds, from 1 to 65533"),
            ("MaxPurgeLimit", "all", "'all'", "a whole number of rows, such as 50000"),
            ("MaxQueryTimeRange", "60 days", "'60 days'", "a Slurm time such as 60-0, or UNLIMITED"),
            ("DebugLevel", "quiet", "'quiet'", "info, verbose, debug, or debug2 to debug5"),
            ("DebugFlags", "DB_JOBS", "'DB_JOBS'", "flags of slurmdbd.conf(5), such as DB_JOB,DB_STEP"),
            ("DisableRollups", True, "true", 'text in quotes, such as "YES" or "NO"'),
            ("DisableRollups", "yes\nStoragePass=x", "'yes\\nStoragePass=x'", "yes or no, in quotes"),
        )
    ),
    ("accounting.enforce", ["everything"], "pulumi-slurm:accounting.enforce[0]: got 'everything'; want one of 'assoc"),
    ("accounting.priority", {"weightAge": -1}, "pulumi-slurm:accounting.priority.weightAge: got -1; want 0 or more"),
    ("accounting.priority.decayHalfLife", "0", "decayHalfLife: got '0'; want more than 0, or slurm.options.Priori"),
    ("accounting.priority", {"decayHalfLife": "a week"}, "want a Slurm time such as 7-00:00:00"),
    *(
        ("accounting.retention.jobs", age, f"got '{age}'; want at most 65535, or a longer unit: slurmdbd would purge")
        for age in ("87600hours", "65536days")
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "user": "a b", "passwordSecret": {"name": "s"}}},
        "pulumi-slurm:accounting.external.user: got 'a b'; want a database user",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "database": "a;b", "passwordSecret": {"name": "s"}}},
        "pulumi-slurm:accounting.external.database: got 'a;b'; want a database name",
    ),
    (
        "accounting",
        {"mode": "external", "external": {"host": "a", "passwordSecret": {"name": "s", "key": "a/b"}}},
        "want a key of a Secret",
    ),
    # Login.
    ("login.users", [{**USER, "name": "root"}], "pulumi-slurm:login.users[0].name: got 'root'; want a login name"),
    ("login.users", [USER, USER], "want another name: users[0] has this one"),
    ("login.users", [{**USER, "sshPublicKeys": ["ssh-ed25519 AAAA"]}], "want one line of an OpenSSH public key file"),
    ("login.users", [{**USER, "sshPublicKeys": [f"{SSH_KEY}\nevil"]}], "want one line of an OpenSSH public key file"),
    ("login.users", [{**USER, "sshPublicKeys": []}], "want at least 1 of them"),
    ("login.limits", {"memoryPerUser": "64Gi"}, "want at most login.resources.memory (4Gi)"),
    ("login.limits", {"memoryPerUser": "64"}, "want a Kubernetes quantity such as 64Gi"),
    ("login.limits", {"cpuPerUser": "many"}, "want a Kubernetes CPU quantity"),
    ("login.limits", {"processesPerUser": 3}, "pulumi-slurm:login.limits.processesPerUser: got 3; want 16 or more"),
    ("login.passwords", "maybe", "want true or false"),
    ("login.allowUsers", [], "pulumi-slurm:login.allowUsers: got []; want at least 1 of them"),
    ("login.allowUsers", ["al*"], "pulumi-slurm:login.allowUsers[0]: got 'al*'; want a login name of an ordinary user"),
    ("login.allowUsers", ["root"], "pulumi-slurm:login.allowUsers[0]: got 'root'; want a login name"),
    ("login.allowGroups", ["a b"], "pulumi-slurm:login.allowGroups[0]: got 'a b'; want the name of a Unix group"),
    (
        "login",
        {"allowUsers": ["a"], "allowGroups": ["b"]},
        'allowGroups: got ["b"]; want nothing beside allowUsers: sshd',
    ),
    *(
        ("login.sets", [{"name": "data", **keys}], f"pulumi-slurm:login.sets[0].{expected}")
        for keys, expected in (
            ({"name": "Data"}, "name: got 'Data'; want a DNS label"),
            ({"replicas": 101}, "replicas: got 101; want 100 or less"),
            ({"users": []}, "users: got []; want no such key"),
            ({"sets": []}, "sets: got []; want no such key"),
            ({"allowGroups": []}, "allowGroups: got []; want at least 1 of them"),
            ({"allowGroups": ["root"]}, "allowGroups[0]: got 'root'; want the name of a Unix group"),
            ({"existingSshSecret": "A"}, "existingSshSecret: got 'A'; want the name of a Kubernetes object"),
            ({"pod": {"hostNetwork": True}}, "pod.hostNetwork: got true; want nothing: the jail depends"),
            ({"limits": {"memoryPerUser": "64Gi"}}, "limits.memoryPerUser: got '64Gi'; want at most the memory of its"),
            (
                {"service": {"type": "NodePort", "loadBalancerSourceRanges": ["192.0.2.0/24"]}},
                'service.loadBalancerSourceRanges: got ["192.0.2.0/24"]; want nothing: a NodePort Service hides',
            ),
            (
                {"submounts": [{"path": "/mnt/memory", "memory": "8Gi"}]},
                'submounts: got ["[0].memory: 8192Mi"]; want memory sizes that are together less than 4096Mi',
            ),
        )
    ),
    (
        "login.sets",
        [{"name": name, "service": {"type": "NodePort", "nodePort": 30122}} for name in ("a", "b")],
        "login.sets[1].service.nodePort: got 30122; want another port: login.sets[0].service.nodePort is this one",
    ),
    ("directory", {"base": "dc=example"}, "directory.uri: got nothing; want the directory's address"),
    ("directory", {"uri": "ldaps://ldap.example"}, "pulumi-slurm:directory.base: got nothing; want the entry below"),
    ("directory", {**DIRECTORY, "uri": "http://a.example"}, "want ldaps://HOST or ldap://HOST"),
    ("directory", {**DIRECTORY, "uri": "ldaps://a.example/dc=b??sub"}, "want ldaps://HOST or ldap://HOST"),
    ("directory", {**DIRECTORY, "uri": "-x"}, "want ldaps://HOST or ldap://HOST"),
    ("directory", {**DIRECTORY, "base": "example.org"}, "want a distinguished name such as ou=people,dc=example"),
    ("directory", {**DIRECTORY, "base": "dc=a\ndc=b"}, "want a distinguished name"),
    ("directory", {**DIRECTORY, "userFilter": "uid=*"}, "directory.userFilter: got 'uid=*'; want an LDAP filter in"),
    ("directory", {**DIRECTORY, "groupFilter": "-h"}, "directory.groupFilter: got '-h'; want an LDAP filter in"),
    ("directory", {**DIRECTORY, "interval": "5"}, "directory.interval: got '5'; want a duration such as"),
    ("directory", {**DIRECTORY, "bindDn": "cn=a"}, "directory.bindPasswordSecret: got nothing; want the Secret with"),
    ("directory", {**DIRECTORY, "bindPasswordSecret": {"name": "a"}}, "directory.bindDn: got nothing; want whose"),
    ("directory", {**DIRECTORY, "bindDn": "cn=a", "bindPasswordSecret": "secret"}, "want a map of keys to values"),
    ("directory", {**DIRECTORY, "caSecret": {"name": "A"}}, "directory.caSecret.name: got 'A'; want the name of a"),
    ("directory", {**DIRECTORY, "password": "x"}, "pulumi-slurm:directory.password: got 'x'; want no such key"),
    (
        "login.service",
        {"type": "NodePort", "loadBalancerSourceRanges": ["192.0.2.0/24"]},
        "every login would be refused",
    ),
]
