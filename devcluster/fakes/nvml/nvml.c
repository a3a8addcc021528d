/* A fake libnvidia-ml.so.1: it talks to no driver, and answers what a scenario file says.
 *
 * It has the calls that node-health makes through NVIDIA's own binding (nvidia-ml-py), and shares with NVIDIA's
 * library: the names of the calls, their arguments, the structures' layouts, and the error codes (nvml.h). A test
 * compares these with the binding. Everything else of NVML is missing.
 *
 * The scenario is $FAKE_GPUS, else /run/fake-gpus. Without one all GPUs are well. nvmlInit reads it. Its lines:
 *   gpus 8            The number of GPUs. Without it: those of which the container has a /dev/fakegpu<number>.
 *   init 9            The code with which nvmlInit fails.
 *   hangs             nvmlInit never returns.
 *   3 gone            GPU 3 has fallen off the bus. It is not counted.
 *   3 lost            It is counted, and does not answer.
 *   3 lost_after 5    It answers five questions, and is lost then.
 *   3 refused 16      Each question about it ends with this code.
 *   3 closed 4        It is counted, and nobody gets it: that ends with this code.
 *   3 uncorrected 7   Another value of a fact of scenario.c. Commas separate several numbers. A dash: it has none.
 *   3 processes -26   It has none, and the question ends with this code.
 *   3 margin 0xfffffffe   A negative number: -2.
 *   3 links 110       The states of its NVLinks, one digit for each.
 *   3 name NVIDIA L4  Its product.
 *   tool dcgmi ...    For the fakes of programs, see ../gpu_tools. */
#include "scenario.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_VERSION "570.86.15"
#define RECOVERY_ACTION_FIELD 230 /* NVML_FI_DEV_GET_GPU_RECOVERY_ACTION */
#define LINK_RECOVERIES_FIELD 215 /* NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS */
#define SLOWDOWN_FIELD 194        /* NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT */
#define FABRIC_INFO_VERSION 2U    /* nvmlGpuFabricInfo_v2 */

/* Layouts of nvml.h. */
union value {
    double real;
    unsigned number;
    unsigned long long large;
};
struct field_value {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type;
    int32_t code;
    union value value;
};
struct process {
    unsigned id;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};
struct sram {
    unsigned version;
    unsigned long long counts[11];
    unsigned exceeded;
};
struct margin {
    unsigned version;
    int margin;
};
struct fabric_info {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique, state, health;
};
_Static_assert(sizeof(struct field_value) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(struct process) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(struct sram) == 104, "nvmlEccSramErrorStatus_v1_t");
_Static_assert(sizeof(struct margin) == 8, "nvmlMarginTemperature_v1_t");
_Static_assert(sizeof(struct fabric_info) == 36, "nvmlGpuFabricInfo_v2_t");

/* Returns the code with which a question about a GPU ends. */
static int ask(struct gpu *gpu) {
    if (!gpu)
        return INVALID_ARGUMENT;
    if (gpu->questions_left > 0)
        gpu->questions_left--;
    else if (gpu->questions_left == 0)
        gpu->lost = 1;
    return gpu->lost ? GPU_IS_LOST : gpu->refused;
}

static int answer(struct gpu *gpu, enum fact fact, int index, unsigned *number) {
    int code = ask(gpu);
    if (code)
        return code;
    if (gpu->absent[fact])
        return gpu->absent[fact];
    *number = gpu->numbers[fact][index];
    return SUCCESS;
}

static int answer_large(struct gpu *gpu, enum fact fact, unsigned long long *number) {
    unsigned small = 0;
    int code = answer(gpu, fact, 0, &small);
    *number = small;
    return code;
}

/* Answers with the recoveries of a link: only the last one has some. */
static int answer_link(struct gpu *gpu, unsigned link, unsigned *number) {
    if (!gpu || link >= strlen(gpu->links))
        return INVALID_ARGUMENT;
    int code = answer(gpu, LINK_RECOVERIES, 0, number);
    if (link + 1 < strlen(gpu->links))
        *number = 0;
    return code;
}

static int answer_two(struct gpu *gpu, enum fact fact, unsigned *first, unsigned *second) {
    int code = answer(gpu, fact, 0, first);
    if (!code)
        *second = gpu->numbers[fact][1];
    return code;
}

static int say(char *buffer, unsigned length, const char *text) {
    if (strlen(text) >= length)
        return INSUFFICIENT_SIZE;
    memcpy(buffer, text, strlen(text) + 1);
    return SUCCESS;
}

/* NVML's calls, which nvml.h declares on a machine with the CUDA toolkit. Each is declared here for the compiler. */
#define CALL(name, ...)                                                                                                \
    int name(__VA_ARGS__);                                                                                             \
    int name(__VA_ARGS__)
#define NUMBER(name, fact)                                                                                             \
    CALL(name, struct gpu *gpu, unsigned *number) {                                                                    \
        return answer(gpu, fact, 0, number);                                                                           \
    }
#define NUMBER_OF_KIND(name, fact)                                                                                     \
    CALL(name, struct gpu *gpu, unsigned kind, unsigned *number) {                                                     \
        (void)kind;                                                                                                    \
        return answer(gpu, fact, 0, number);                                                                           \
    }

CALL(nvmlInitWithFlags, unsigned flags) {
    (void)flags;
    return fake_read_scenario();
}

CALL(nvmlShutdown, void) {
    return SUCCESS;
}

const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code) {
    return code == ARGUMENT_VERSION_MISMATCH ? "Argument Version Mismatch" : "an error of the fake NVML";
}

CALL(nvmlSystemGetDriverVersion, char *version, unsigned length) {
    return say(version, length, DRIVER_VERSION);
}

CALL(nvmlDeviceGetCount_v2, unsigned *count) {
    *count = 0;
    for (unsigned number = 0; number < MOST_GPUS; number++)
        *count += fake_gpus[number].present ? 1 : 0;
    return SUCCESS;
}

CALL(nvmlDeviceGetHandleByIndex_v2, unsigned index, struct gpu **gpu) {
    for (unsigned number = 0; number < MOST_GPUS; number++)
        if (fake_gpus[number].present && index-- == 0) {
            *gpu = &fake_gpus[number];
            return fake_gpus[number].lost ? GPU_IS_LOST : fake_gpus[number].closed;
        }
    return INVALID_ARGUMENT;
}

CALL(nvmlDeviceGetName, struct gpu *gpu, char *name, unsigned length) {
    return say(name, length, gpu->name);
}

CALL(nvmlDeviceGetUUID, struct gpu *gpu, char *uuid, unsigned length) {
    char text[32];
    snprintf(text, sizeof(text), "GPU-fake-%u", gpu->number);
    return say(uuid, length, text);
}

CALL(nvmlDeviceGetEccMode, struct gpu *gpu, unsigned *now, unsigned *pending) {
    int code = answer(gpu, ECC, 0, now);
    *pending = *now;
    return code;
}

CALL(nvmlDeviceGetTotalEccErrors, struct gpu *gpu, unsigned kind, unsigned counter, unsigned long long *count) {
    (void)counter;
    return answer_large(gpu, kind ? UNCORRECTED : CORRECTED, count);
}

CALL(nvmlDeviceGetSramEccErrorStatus, struct gpu *gpu, struct sram *status) {
    if (status->version != (1U << 24 | sizeof(*status)))
        return ARGUMENT_VERSION_MISMATCH;
    return answer(gpu, SRAM, 0, &status->exceeded);
}

CALL(nvmlDeviceGetRemappedRows, struct gpu *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
     unsigned *failed) {
    int code = answer_two(gpu, REMAPPED, corrected, uncorrected);
    if (!code) {
        *pending = gpu->numbers[REMAPPED][2];
        *failed = gpu->numbers[REMAPPED][3];
    }
    return code;
}

NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, RETIRED)

CALL(nvmlDeviceGetFieldValues, struct gpu *gpu, int count, struct field_value *values) {
    for (int index = 0; index < count; index++) {
        unsigned *number = &values[index].value.number;
        values[index].type = 1; /* NVML_VALUE_TYPE_UNSIGNED_INT */
        if (values[index].field == RECOVERY_ACTION_FIELD)
            values[index].code = answer(gpu, RECOVERY, 0, number);
        else if (values[index].field == SLOWDOWN_FIELD)
            values[index].code = answer(gpu, SLOWDOWN_MARGIN, 0, number);
        else if (values[index].field == LINK_RECOVERIES_FIELD)
            values[index].code = answer_link(gpu, values[index].scope, number);
        else
            values[index].code = NOT_SUPPORTED;
    }
    return SUCCESS;
}

CALL(nvmlDeviceGetMarginTemperature, struct gpu *gpu, struct margin *margin) {
    if (margin->version != (1U << 24 | sizeof(*margin)))
        return ARGUMENT_VERSION_MISMATCH;
    return answer(gpu, MARGIN, 0, (unsigned *)&margin->margin);
}

CALL(nvmlDeviceGetNvLinkState, struct gpu *gpu, unsigned link, unsigned *active) {
    int code = ask(gpu);
    if (code)
        return code;
    if (link >= strlen(gpu->links))
        return INVALID_ARGUMENT;
    *active = gpu->links[link] == '1';
    return SUCCESS;
}

CALL(nvmlDeviceGetNvLinkErrorCounter, struct gpu *gpu, unsigned link, unsigned kind, unsigned long long *count) {
    (void)kind;
    return link < strlen(gpu->links) ? answer_large(gpu, LINK_ERRORS, count) : INVALID_ARGUMENT;
}

CALL(nvmlDeviceGetCurrentClocksEventReasons, struct gpu *gpu, unsigned long long *reasons) {
    return answer_large(gpu, THROTTLED, reasons);
}

CALL(nvmlDeviceGetCurrentClocksThrottleReasons, struct gpu *gpu, unsigned long long *reasons) {
    return answer_large(gpu, THROTTLED, reasons);
}

NUMBER_OF_KIND(nvmlDeviceGetMaxClockInfo, MAX_CLOCK)
NUMBER_OF_KIND(nvmlDeviceGetApplicationsClock, APPLICATION_CLOCK)
NUMBER_OF_KIND(nvmlDeviceGetDefaultApplicationsClock, DEFAULT_CLOCK)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, POWER)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, DEFAULT_POWER)
NUMBER_OF_KIND(nvmlDeviceGetTemperature, TEMPERATURE)
NUMBER_OF_KIND(nvmlDeviceGetTemperatureThreshold, SLOWDOWN)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, WIDTH)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, MAX_WIDTH)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, GENERATION)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, MAX_GENERATION)
NUMBER(nvmlDeviceGetPcieReplayCounter, REPLAYS)
NUMBER(nvmlDeviceGetPerformanceState, STATE)
NUMBER(nvmlDeviceGetPersistenceMode, PERSISTENCE)
NUMBER(nvmlDeviceGetVirtualizationMode, VIRTUALIZATION)

CALL(nvmlDeviceGetComputeRunningProcesses_v3, struct gpu *gpu, unsigned *count, struct process *processes) {
    unsigned running = 0, room = *count;
    int code = answer(gpu, PROCESSES, 0, &running);
    if (code)
        return code;
    *count = running;
    if (running > room)
        return INSUFFICIENT_SIZE;
    for (unsigned index = 0; index < running; index++)
        processes[index] = (struct process){.id = 1000 + index};
    return SUCCESS;
}

CALL(nvmlDeviceGetGpuFabricInfoV, struct gpu *gpu, struct fabric_info *info) {
    unsigned status = 0;
    if (info->version != (FABRIC_INFO_VERSION << 24 | sizeof(*info)))
        return ARGUMENT_VERSION_MISMATCH;
    int code = answer_two(gpu, FABRIC, &info->state, &status);
    info->status = (int)status;
    info->health = gpu->numbers[FABRIC][2];
    return code;
}

CALL(nvmlDeviceGetMigMode, struct gpu *gpu, unsigned *now, unsigned *pending) {
    return answer_two(gpu, MIG, now, pending);
}
