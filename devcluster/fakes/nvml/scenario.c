/* Reads the scenario file of the fake NVML. */
#include "scenario.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCENARIO "/run/fake-gpus"
#define PRODUCT "NVIDIA H100 80GB HBM3"
#define HEALTHY_LINKS "111111111111111111"

enum { LINE = 256 };

/* An H100 that is well: no errors, 700 W in milliwatts, 31 degrees. It remaps rows, and retires no pages.
 * Its NVLinks count errors, and no recoveries. */
static const struct {
    const char *name;
    unsigned numbers[MOST_NUMBERS];
    int absent;
} healthy[FACTS] = {
    [ECC] = {"ecc", {1}, 0},
    [UNCORRECTED] = {"uncorrected", {0}, 0},
    [CORRECTED] = {"corrected", {0}, 0},
    [SRAM] = {"sram_exceeded", {0}, 0},
    [REMAPPED] = {"remapped", {0, 0, 0, 0}, 0}, /* corrected, uncorrected, pending, failed */
    [RETIRED] = {"retired", {0}, 1},
    [RECOVERY] = {"recovery", {0}, 0},
    [LINK_ERRORS] = {"link_errors", {0}, 0},
    [LINK_RECOVERIES] = {"link_recoveries", {0}, 1},
    [THROTTLED] = {"throttled", {1}, 0}, /* idle */
    [MAX_CLOCK] = {"max_clock", {1980}, 0},
    [APPLICATION_CLOCK] = {"application_clock", {1980}, 0},
    [DEFAULT_CLOCK] = {"default_clock", {1980}, 0},
    [POWER] = {"power", {700000}, 0},
    [DEFAULT_POWER] = {"default_power", {700000}, 0},
    [TEMPERATURE] = {"temperature", {31}, 0},
    [SLOWDOWN] = {"slowdown", {95}, 0},
    [MARGIN] = {"margin", {56}, 0},
    [SLOWDOWN_MARGIN] = {"slowdown_margin", {0xfffffffe}, 0}, /* -2 */
    [WIDTH] = {"width", {16}, 0},
    [MAX_WIDTH] = {"max_width", {16}, 0},
    [GENERATION] = {"generation", {5}, 0},
    [MAX_GENERATION] = {"max_generation", {5}, 0},
    [REPLAYS] = {"replays", {0}, 0},
    [STATE] = {"state", {0}, 0},
    [PERSISTENCE] = {"persistence", {1}, 0},
    [PROCESSES] = {"processes", {0}, 0},
    [FABRIC] = {"fabric", {3, 0, 0}, 0}, /* state, status, health */
    [MIG] = {"mig", {0, 0}, 0},          /* now, after a reset */
    [VIRTUALIZATION] = {"virtualization", {0}, 0},
};

struct gpu fake_gpus[MOST_GPUS];
static int init_code, init_hangs;

static void make_healthy(void) {
    init_code = init_hangs = 0;
    for (unsigned number = 0; number < MOST_GPUS; number++) {
        struct gpu *gpu = &fake_gpus[number];
        char device[32];
        snprintf(device, sizeof(device), "/dev/fakegpu%u", number);
        *gpu = (struct gpu){.number = number, .present = !access(device, F_OK), .questions_left = -1};
        snprintf(gpu->name, sizeof(gpu->name), "%s", PRODUCT);
        snprintf(gpu->links, sizeof(gpu->links), "%s", HEALTHY_LINKS);
        for (int fact = 0; fact < FACTS; fact++) {
            memcpy(gpu->numbers[fact], healthy[fact].numbers, sizeof(gpu->numbers[fact]));
            gpu->absent[fact] = healthy[fact].absent ? NOT_SUPPORTED : 0;
        }
    }
}

/* Returns 0 if the text begins with a number, and moves to what follows. */
static int read_number(const char **text, unsigned *number) {
    char *end = NULL;
    errno = 0;
    unsigned long read = isdigit((unsigned char)**text) ? strtoul(*text, &end, 0) : 0;
    if (!end || errno || read > UINT32_MAX)
        return -1;
    *number = (unsigned)read;
    *text = end;
    return 0;
}

/* Returns 0 if the text is one number. */
static int read_only_number(const char *text, unsigned *number) {
    return read_number(&text, number) || *text ? -1 : 0;
}

/* Returns 0 if the text begins with a dash and is right: a code may follow. */
static int set_absent(struct gpu *gpu, int fact, const char *text) {
    unsigned code = NOT_SUPPORTED;
    if (text[1] && read_only_number(text + 1, &code))
        return -1;
    gpu->absent[fact] = (int)code;
    return 0;
}

static int set_fact(struct gpu *gpu, int fact, const char *text) {
    if (*text == '-')
        return set_absent(gpu, fact, text);
    gpu->absent[fact] = 0;
    for (int index = 0; index < MOST_NUMBERS; index++) {
        if (read_number(&text, &gpu->numbers[fact][index]))
            return -1;
        if (*text != ',')
            break;
        text++;
    }
    return *text ? -1 : 0;
}

/* Returns 0 if this says something about a GPU. */
static int set_gpu(struct gpu *gpu, const char *word, const char *text) {
    unsigned number = 0;
    for (int fact = 0; fact < FACTS; fact++)
        if (!strcmp(word, healthy[fact].name))
            return set_fact(gpu, fact, text);
    if (!strcmp(word, "gone") && !*text)
        gpu->present = 0;
    else if (!strcmp(word, "lost") && !*text)
        gpu->lost = 1;
    else if (!strcmp(word, "lost_after") && !read_only_number(text, &number))
        gpu->questions_left = number;
    else if (!strcmp(word, "refused") && !read_only_number(text, &number))
        gpu->refused = (int)number;
    else if (!strcmp(word, "closed") && !read_only_number(text, &number))
        gpu->closed = (int)number;
    else if (!strcmp(word, "links") && strspn(text, "01") == strlen(text) && strlen(text) <= MOST_LINKS)
        snprintf(gpu->links, sizeof(gpu->links), "%s", text);
    else if (!strcmp(word, "name") && *text && strlen(text) < sizeof(gpu->name))
        snprintf(gpu->name, sizeof(gpu->name), "%s", text);
    else
        return -1;
    return 0;
}

static int set_all(const char *word, const char *text) {
    unsigned number = 0;
    if (!strcmp(word, "tool"))
        return 0;
    if (!strcmp(word, "hangs") && !*text)
        init_hangs = 1;
    else if (!strcmp(word, "init") && !read_only_number(text, &number))
        init_code = (int)number;
    else if (!strcmp(word, "gpus") && !read_only_number(text, &number) && number <= MOST_GPUS)
        for (unsigned index = 0; index < MOST_GPUS; index++)
            fake_gpus[index].present = index < number;
    else
        return -1;
    return 0;
}

/* Returns 0 if the line says something, or nothing at all; it is cut into its words. */
static int set_line(char *line) {
    unsigned number = 0;
    line[strcspn(line, "\n")] = '\0';
    char *word = strsep(&line, " ");
    if (!*word)
        return 0;
    if (read_only_number(word, &number))
        return set_all(word, line ? line : "");
    char *what = line ? strsep(&line, " ") : "";
    return number < MOST_GPUS ? set_gpu(&fake_gpus[number], what, line ? line : "") : -1;
}

int fake_read_scenario(void) {
    const char *chosen = getenv("FAKE_GPUS");
    const char *path = chosen ? chosen : SCENARIO;
    char line[LINE], whole[LINE];
    make_healthy();
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? SUCCESS : UNKNOWN;
    while (fgets(line, sizeof(line), file)) {
        snprintf(whole, sizeof(whole), "%s", line);
        if (set_line(line)) {
            fprintf(stderr, "fake NVML: %s has a line that means nothing: %s\n", path, whole);
            init_code = UNKNOWN;
            break;
        }
    }
    fclose(file);
    while (init_hangs)
        pause();
    return init_code;
}
