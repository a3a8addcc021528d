"""slurmd never reads a line of gres.conf whose devices its pod lacks."""

from slurm_node.slurm.device_lines import only_present

GPUS = "NodeName=h100-[0-9999] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-1]"
MIG = "NodeName=h100-[0-9999] AutoDetect=off Name=gpu MultipleFiles=/dev/nvidia2,/dev/nvidia-caps/nvidia-cap[1-2]"
FPGA = "NodeName=h100-[0-9999] Name=fpga File=/dev/fpga0"
OTHER = "NodeName=h100b-[0-9999] Name=fpga File=/dev/fpga0"
FOUND = "NodeName=h100-[0-9999] AutoDetect=nvidia"
LAST = "AutoDetect=off"


def read(*missing: str) -> list[str]:
    """Lines that slurmd of a node of h100 reads where these files are missing."""
    text = "".join(f"{line}\n" for line in (GPUS, MIG, FPGA, OTHER, FOUND, LAST))
    files = only_present({"gres.conf": text, "slurm.conf": "A=b\n"}, "h100", lambda file: file not in missing)
    assert files["slurm.conf"] == "A=b\n"
    assert files["gres.conf"].endswith(f"{LAST}\n")
    return [line for line in files["gres.conf"].splitlines() if not line.startswith("#")]


def test_lines_whose_files_are_there_stay() -> None:
    assert read() == [GPUS, MIG, FPGA, OTHER, FOUND, LAST]


def test_a_line_with_a_missing_file_goes_and_no_other() -> None:
    assert read("/dev/nvidia1") == [MIG, FPGA, OTHER, FOUND, LAST]
    assert read("/dev/nvidia-caps/nvidia-cap2") == [GPUS, FPGA, OTHER, FOUND, LAST]
    assert read("/dev/fpga0") == [GPUS, MIG, OTHER, FOUND, LAST], "lines for other nodes are not read here"


def test_the_line_is_kept_for_people() -> None:
    kept = only_present({"gres.conf": f"{FPGA}\n"}, "h100", lambda file: False)["gres.conf"]
    assert kept == f"# The pod lacks /dev/fpga0: {FPGA}\n"


def test_a_configuration_without_devices_stays_as_it_is() -> None:
    assert only_present({"gres.conf": "AutoDetect=off\n"}, "") == {"gres.conf": "AutoDetect=off\n"}
    assert only_present({}, "h100") == {}
