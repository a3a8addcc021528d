/* SPANK plugin: job steps have the jail as their root.
 *
 *   required /opt/slurm/lib/slurm-wlm/spank_jail.so jail=/run/jail
 *
 * slurm_spank_init_post_opt is the last callback before slurmstepd opens the user's files and enters the working
 * folder, so the root changes there. Nothing of the user starts unless task_init_privileged finds itself in the jail.
 */
#include "container_log.h"
#include "jail.h"

#include <stdint.h>
#include <string.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

#define PLUGIN "jail"

SPANK_PLUGIN(PLUGIN, 1);

int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[]);
int slurm_spank_task_init_privileged(spank_t spank, int argc, char *argv[]);

/* SPANK gives callbacks no place for data of their own; slurmstepd runs one step, so one context is enough. */
static struct jail context;

/* What slurmstepd itself uses to report a step that must not run, and to clean up after it. */
static const char *const stepd_folders[] = {"/proc", "/sys", "/dev", "/etc", "/var/spool/slurmd", "/run/slurm", NULL};

static const char *jail_root(int argc, char *argv[]) {
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "jail=", strlen("jail=")))
            return argv[i] + strlen("jail=");
    return JAIL_DEFAULT_ROOT;
}

/* The extern step holds no user code. A failure in it would end the job without a word to anyone. */
static bool runs_user_code(uint32_t step) {
    return step != SLURM_EXTERN_CONT;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[]) {
    uint32_t step = 0;
    if (spank_context() != S_CTX_REMOTE)
        return ESPANK_SUCCESS;
    spank_err_t asked = spank_get_item(spank, S_JOB_STEPID, &step);
    if (asked != ESPANK_SUCCESS) {
        slurm_error(PLUGIN ": which step is this? %s: refusing to run it", spank_strerror(asked));
        return ESPANK_ERROR;
    }
    if (!runs_user_code(step))
        return ESPANK_SUCCESS;
    jail_init(&context, jail_root(argc, argv));
    jail_preload_system_code();
    if (!jail_enter(&context)) {
        slurm_debug(PLUGIN ": entered %s", context.root);
        return ESPANK_SUCCESS;
    }
    slurm_error(PLUGIN ": refusing to run the step outside the jail: %s", context.why);
    container_log("slurmstepd: error: " PLUGIN ": refusing to run a step outside the jail: %s\n", context.why);
    /* A batch script has no open output yet: fail here, so that Slurm drains the node and requeues the job. */
    if (step == SLURM_BATCH_SCRIPT || context.state == JAIL_ENTERED)
        return ESPANK_ERROR;
    /* Other steps are led on to where their user's stderr is open, in a root that holds nothing to run. */
    if (jail_enter_refusal(&context, stepd_folders)) {
        slurm_error(PLUGIN ": and no empty root either: %s", context.why);
        return ESPANK_ERROR;
    }
    return ESPANK_SUCCESS;
}

int slurm_spank_task_init_privileged(spank_t spank, int argc, char *argv[]) {
    (void)argc;
    (void)argv;
    uint32_t step = SLURM_BATCH_SCRIPT;
    if (spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS && !runs_user_code(step))
        return ESPANK_SUCCESS;
    /* Order matters: the last call gives up the right to make the ones before it. */
    if (jail_verify(&context) || jail_seal_cgroups(&context) || jail_drop_capabilities(&context)) {
        slurm_error("this node can't run your job inside the jail: %s. Nothing was run; tell your administrator.",
                    context.why);
        return ESPANK_ERROR;
    }
    return ESPANK_SUCCESS;
}
