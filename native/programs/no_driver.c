/* Stands in for the libraries of NVIDIA's driver on a node that has none, under each of their names: libcuda.so.1 …
 *
 * The jail's default library directory has links to these names on every node. On the file system that all nodes share,
 * ldconfig deletes a link whose target is missing. So this file is the target on a node without a driver. It has no
 * soname of its own: ldconfig would make a link of that name.
 *
 * When loaded, it prints why nothing will work. Its few functions return NVIDIA's error codes for a missing driver. */
#include <string.h>
#include <unistd.h>

/* CUresult, CUDA driver API: the library that was loaded is a stub. */
#define CUDA_ERROR_STUB_LIBRARY 34
/* nvmlReturn_t, NVML API: NVML shared library couldn't be found or loaded. */
#define NVML_ERROR_LIBRARY_NOT_FOUND 12

int cuInit(unsigned int flags);
int cuDriverGetVersion(int *version);
int nvmlInit_v2(void);
int nvmlInitWithFlags(unsigned int flags);

__attribute__((constructor)) static void say_why(void) {
    static const char sentence[] = "no NVIDIA driver on this node: jobs with --gres=gpu run on nodes that have one\n";
    /* Nobody is left to tell if this fails. */
    if (write(STDERR_FILENO, sentence, strlen(sentence)) < 0)
        return;
}

int cuInit(unsigned int flags) {
    (void)flags;
    return CUDA_ERROR_STUB_LIBRARY;
}

int cuDriverGetVersion(int *version) {
    if (version)
        *version = 0;
    return CUDA_ERROR_STUB_LIBRARY;
}

int nvmlInit_v2(void) {
    return NVML_ERROR_LIBRARY_NOT_FOUND;
}

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return NVML_ERROR_LIBRARY_NOT_FOUND;
}
