"""A further SPANK plugin, such as Pyxis, runs in steps after the jail plugin, with the jail as its root."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.machine.bootstrap import CHECKOUT
from images.slurm.build_plugins import INSTEAD
from tests.image import roots
from tests.image.doors.stepd_rights import KEPT, THREADS
from tests.image.small_cluster import ALICE, SmallCluster

PLUGINS = "opt/slurm/lib/slurm-wlm"
NATIVE = CHECKOUT / "native"
TELL = (
    "id -u; readlink /proc/self/ns/pid /proc/self/ns/mnt /proc/self/ns/ipc; "
    "grep -E '^(CapBnd|Seccomp_filters)' /proc/self/status"
)
# Like Pyxis it has an option, and starts programs in slurmstepd and in a task. It reports each callback's root, and
# fails on demand. Declared as in spank.h, and built as images/slurm/build_plugins.py does.
SOURCE = r"""
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
const char plugin_name[] = "stand_in", plugin_type[] = "spank";
const unsigned int plugin_version = VERSION, spank_plugin_version = 1;
struct spank_option {
    char *name, *arginfo, *usage;
    int has_arg, val;
    int (*cb)(int, const char *, int);
};
extern int spank_option_register(void *, struct spank_option *);
extern int spank_remote(void *);
extern void slurm_spank_log(const char *, ...);
static char image[64];
static const char *told = "nothing";
static int chosen(int val, const char *text, int remote) {
    (void)val;
    (void)remote;
    snprintf(image, sizeof(image), "%s", text);
    return 0;
}
static struct spank_option option = {"stand-in", "WORD", "a word for the stand-in", 1, 0, chosen};
int slurm_spank_init(void *spank, int argc, char **argv) {
    told = argc ? argv[0] : told;
    return spank_option_register(spank, &option);
}
static void say(void *spank, const char *when) {
    struct stat root;
    if (image[0] && spank_remote(spank) && !stat("/", &root))
        slurm_spank_log("stand-in: %s: uid %u, root %lu, told %s, asked for %s", when, geteuid(),
                        (unsigned long)root.st_ino, told, image);
}
static void start(const char *when) {
    char said[512] = "";
    int channel[2];
    int is_late = !strcmp(image, "starts late") && !strcmp(when, "task_exit");
    int in_task = !strcmp(image, "starts in a task") && strcmp(when, "user_init");
    if ((strcmp(image, "starts") && !is_late && !in_task) || pipe(channel))
        return;
    pid_t child = fork();
    if (child == 0) {
        dup2(channel[1], 1);
        dup2(channel[1], 2);
        if (syscall(SYS_close_range, 3, ~0U, 0) && errno != ENOSYS)
            _exit(1);
        if (geteuid() == 0 && (setgroups(0, NULL) || setregid(1000, 1000) || setreuid(1000, 1000)))
            _exit(1);
        char *words[] = {"sh", "-c", TELL, NULL};
        execvpe("sh", words, environ);
        _exit(1);
    }
    close(channel[1]);
    for (ssize_t had = 0, more; (more = read(channel[0], said + had, sizeof(said) - 1 - had)) > 0; had += more)
        ;
    close(channel[0]);
    waitpid(child, NULL, 0);
    for (char *end = said; *end; end++)
        *end = *end == '\n' ? ' ' : *end;
    slurm_spank_log("stand-in started in %s: %s", when, said);
}
int slurm_spank_task_exit(void *spank, int argc, char **argv) {
    start("task_exit");
    return 0;
}
int slurm_spank_init_post_opt(void *spank, int argc, char **argv) {
    say(spank, "post_opt");
    return 0;
}
int slurm_spank_user_init(void *spank, int argc, char **argv) {
    say(spank, "user_init");
    start("user_init");
    return strcmp(image, "broken-early") ? 0 : -1;
}
int slurm_spank_task_init(void *spank, int argc, char **argv) {
    say(spank, "task_init");
    if (!strcmp(image, "starts in a task"))
        start("task_init");
    return strcmp(image, "broken") ? 0 : -1;
}
"""


@pytest.fixture(scope="module")
def cluster(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    folder = tmp_path_factory.mktemp("plugins")
    version = [int(part) for part in re.split(r"[.-]", (image / "opt/slurm/VERSION").read_text())[:3]]
    number = f"-DVERSION={version[0] << 16 | version[1] << 8 | version[2]}"
    plugin = image / PLUGINS / "stand_in.so"
    more = {"spankPlugins": [{"file": plugin.name, "arguments": ["runtime_path=/tmp/x"]}]}
    made = folder / "confined_fork.o"
    subprocess.run(["make", "-s", "-C", NATIVE, f"OUT={folder}", made], check=True, timeout=60)
    macros = [number, "-D_GNU_SOURCE", f'-DTELL="{TELL}"', *INSTEAD]
    command = ["gcc", "-shared", "-fPIC", *macros, "-x", "c", "-", "-x", "none", str(made)]
    subprocess.run([*command, "-o", str(plugin)], input=SOURCE, text=True, check=True, timeout=60)
    try:
        with SmallCluster(image, roots.make("bookworm", folder / "root"), folder, slurm=more) as started:
            started.start()
            yield started
    finally:
        plugin.unlink()


def test_it_is_called_with_the_jail_as_its_root_and_its_option_is_sruns(cluster: SmallCluster) -> None:
    done = cluster.jail("srun -n1 --stand-in=ubuntu stat -c 'a task in %i' /", user=ALICE)
    jail = cluster.root.stat().st_ino
    assert done.stdout == f"a task in {jail}\n", done.stderr
    said = re.findall(
        r"stand-in: (\w+): uid (\d+), root (\d+), told (\S+), asked for (\S+)", done.stderr + cluster.log("cpu-0")
    )
    assert {when for when, *_ in said} >= {"user_init", "task_init"}, done.stderr
    assert {tuple(rest) for _, *rest in said if rest[0] == str(ALICE)} == {
        (str(ALICE), str(jail), "runtime_path=/tmp/x", "ubuntu")
    }
    assert {root for _, _, root, *_ in said} == {str(jail)}
    assert "--stand-in=WORD" in cluster.jail("srun --help").stdout


def test_a_step_that_does_not_ask_for_it_notices_nothing(cluster: SmallCluster) -> None:
    done = cluster.jail("srun -Q -n1 id -u", user=ALICE)
    assert (done.stdout, done.stderr) == (f"{ALICE}\n", "")
    assert cluster.batch("id -u").split() == [str(ALICE)]


@pytest.mark.parametrize("word", ["broken", "broken-early"])
def test_a_required_one_that_fails_fails_the_step(cluster: SmallCluster, word: str) -> None:
    done = cluster.jail(f"srun -n1 --stand-in={word} id -u", user=ALICE)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "error" in done.stderr


def told(cluster: SmallCluster, said: str) -> dict[str, list[str]]:
    found = re.findall(r"stand-in started in (\w+): (.*)", said + cluster.log("cpu-0"))
    return {when: words.split() for when, words in found}


@pytest.mark.parametrize(("word", "first"), [("starts", "user_init"), ("starts in a task", "task_init")])
def test_what_it_starts_in_slurmstepd_is_confined_as_a_task_is(cluster: SmallCluster, word: str, first: str) -> None:
    done = cluster.jail(f"srun -n1 --stand-in='{word}' sh -c \"{TELL}\"", user=ALICE)
    of_task = done.stdout.split()
    assert len(of_task) == 8, done.stderr
    assert told(cluster, done.stderr) == {first: of_task, "task_exit": of_task}, done.stderr


@pytest.mark.parametrize("option", ["", "--stand-in=starts "])
def test_slurmstepd_is_confined_once_its_tasks_run(cluster: SmallCluster, option: str) -> None:
    submitted = cluster.jail(f"sbatch --parsable -o /dev/null --wrap 'srun {option}-n1 sleep 100'", user=ALICE)
    job = submitted.stdout.strip()
    try:
        cluster.wait("the step", lambda: cluster.pod("pgrep -u alice -x sleep").stdout, 30)
        assert set(re.findall(r"CapPrm:\t(\S+)", cluster.pod(THREADS).stdout)) == {f"{KEPT:016x}"}
    finally:
        cluster.jail(f"scancel {job}", user=ALICE)
        cluster.wait("the job's end", lambda: not cluster.jail(f"squeue -h -j {job}").stdout.strip(), 60)


def test_what_started_nothing_before_the_tasks_end_starts_nothing_then(cluster: SmallCluster) -> None:
    done = cluster.jail("srun -n1 --stand-in='starts late' echo ran", user=ALICE)
    assert done.stdout == "ran\n"
    said = " ".join(told(cluster, done.stderr)["task_exit"])
    assert "sh, which a plugin starts, did not run in the job" in said
