#include "container_log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void container_log(const char *format, ...) {
    /* Non-blocking: a log that nobody reads must not hold up a step. */
    int log = open(CONTAINER_LOG, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (log < 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    vdprintf(log, format, arguments);
    va_end(arguments);
    close(log);
}
