/* Before a command of Slurm's: it asks, and never reads the answer. Slurm looks for a closed connection by one byte. */
#include <sys/socket.h>
#include <unistd.h>

ssize_t recv(int fd, void *buf, size_t n, int flags) {
    (void)fd;
    (void)buf;
    (void)flags;
    while (n > 1)
        pause();
    return 1;
}
