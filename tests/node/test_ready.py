from slurm_node.conditions import ready

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0        0 2
"""


def test_only_a_listening_socket_counts() -> None:
    assert ready.listens(TABLE, 22)
    assert not ready.listens(TABLE, 8080)
    assert not ready.listens(TABLE.splitlines()[0], 22)
