"""TLS in front of slurmrestd: who listens where, and when haproxy reads its certificate anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from slurm_database import renewal
from slurm_node.pod import paths
from slurm_node.roles import proxy, rest

from contract import names
from devcluster.machine.bootstrap import CHECKOUT

CONFIG = CHECKOUT / "images/slurm/rootfs" / str(proxy.CONFIG).lstrip("/")


def publish(folder: Path, version: str, certificate: str, key: str) -> None:
    """Puts files there as kubelet does: a new folder, then a link renamed over the old one."""
    new = folder / f"..{version}"
    new.mkdir(parents=True)
    (new / "tls.crt").write_text(certificate)
    (new / "tls.key").write_text(key)
    (new / "ca.crt").write_text("authority")
    (folder / "..new").symlink_to(new.name)
    (folder / "..new").rename(folder / "..data")
    for name in (*proxy.PAIR, "ca.crt"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")


def test_a_renewed_certificate_is_read_once(tmp_path):
    publish(tmp_path, "1", "certificate", "key")
    reloads: list[int] = []
    look = proxy.reload_on_change(tmp_path, lambda: reloads.append(1))
    look()
    assert reloads == []
    publish(tmp_path, "2", "renewed", "new key")
    look()
    look()
    assert reloads == [1]


def test_the_same_content_in_new_files_is_no_change(tmp_path):
    publish(tmp_path, "1", "certificate", "key")
    look = proxy.reload_on_change(tmp_path, lambda: pytest.fail("nothing changed"))
    publish(tmp_path, "2", "certificate", "key")
    look()


def test_a_secret_that_is_away_for_a_moment_is_no_change(tmp_path):
    publish(tmp_path, "1", "certificate", "key")
    look = proxy.reload_on_change(tmp_path, lambda: pytest.fail("nothing changed"))
    (tmp_path / "..data").rename(tmp_path / "..gone")
    look()
    (tmp_path / "..gone").rename(tmp_path / "..data")
    look()


def test_slurmrestd_listens_for_the_proxy_alone_or_for_everybody():
    assert rest.command({})[-1] == "0.0.0.0:6820"
    assert rest.command({"SLURM_REST": '{"socket":true}'})[-1] == "unix:/run/slurm-rest/slurmrestd.sock"


def test_haproxy_is_told_the_same_paths_and_port():
    text = CONFIG.read_text()
    assert re.search(
        rf"^    bind \*:{names.SLURMRESTD_PORT} ssl crt {paths.REST_TLS}/{proxy.PAIR[0]} ", text, re.MULTILINE
    )
    assert f"unix@{paths.REST_SOCKET}\n" in text
    assert len(re.findall(r"^ +(?:bind|listen) ", text, re.MULTILINE)) == 1, "no way in besides TLS"


def test_the_database_is_told_of_a_renewed_certificate_until_it_has_heard(tmp_path):
    publish(tmp_path, "1", "certificate", "key")
    answers = [False, True]
    calls: list[int] = []
    look = renewal.reload_on_change(tmp_path, lambda: (calls.append(1), answers.pop(0))[1])
    look()
    assert calls == []
    publish(tmp_path, "2", "renewed", "new key")
    look()
    look()
    look()
    assert calls == [1, 1]
