/* GPUs as the scenario file of the fake NVML has them; nvml.c says what stands in it. */
#ifndef FAKE_NVML_SCENARIO_H
#define FAKE_NVML_SCENARIO_H

enum { MOST_GPUS = 64, MOST_NUMBERS = 4, MOST_LINKS = 36 };

/* nvmlReturn_t */
enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    INSUFFICIENT_SIZE = 7,
    GPU_IS_LOST = 15,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

enum fact {
    ECC,
    UNCORRECTED,
    CORRECTED,
    SRAM,
    REMAPPED,
    RETIRED,
    RECOVERY,
    LINK_ERRORS,
    LINK_RECOVERIES,
    THROTTLED,
    MAX_CLOCK,
    APPLICATION_CLOCK,
    DEFAULT_CLOCK,
    POWER,
    DEFAULT_POWER,
    TEMPERATURE,
    SLOWDOWN,
    MARGIN,
    SLOWDOWN_MARGIN,
    WIDTH,
    MAX_WIDTH,
    GENERATION,
    MAX_GENERATION,
    REPLAYS,
    STATE,
    PERSISTENCE,
    PROCESSES,
    FABRIC,
    MIG,
    VIRTUALIZATION,
    FACTS
};

struct gpu {
    long questions_left; /* -1: it answers for ever */
    unsigned number;
    int present, lost, refused, closed;
    char name[96];
    char links[MOST_LINKS + 1];
    unsigned numbers[FACTS][MOST_NUMBERS];
    int absent[FACTS]; /* 0: it has the fact; else the code */
};

extern struct gpu fake_gpus[MOST_GPUS];

/* Reads the scenario, and returns the code with which nvmlInit ends. It may never return. */
int fake_read_scenario(void);

#endif
