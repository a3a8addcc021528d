/* All addresses of the loopback are one to sshd, which preloads this library (roles/login.py).
 *
 * sshd bounds the connections of one address that have not logged in yet (sshd_config). A user of the login node has
 * sixteen million addresses there. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int getpeername(int fd, struct sockaddr *addr, socklen_t *len) {
    const socklen_t room = *len;
    int failed = (int)syscall(SYS_getpeername, fd, addr, len);
    struct sockaddr_in *peer = (struct sockaddr_in *)addr;
    if (!failed && room >= sizeof(*peer) && peer->sin_family == AF_INET &&
        ntohl(peer->sin_addr.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET)
        peer->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return failed;
}
