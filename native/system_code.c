#include "jail.h"

#include <dlfcn.h>
#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stddef.h>
#include <sys/socket.h>

void jail_preload_for_refusal(void) {
    /* The resolver reads its files once: /etc/host.conf, /etc/resolv.conf. */
    const struct addrinfo one_answer = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (!getaddrinfo("localhost", NULL, &one_answer, &found))
        freeaddrinfo(found);
    /* glibc opens it by name when a thread ends or is cancelled. */
    (void)dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_GLOBAL);
}

void jail_preload_system_code(void) {
    /* An id that nobody has walks through every service of nsswitch.conf, so that each module is loaded. glibc does not
     * read nsswitch.conf again once "/" is another folder. */
    const id_t nobody_has_it = 4294900000U;
    (void)getpwuid(nobody_has_it);
    (void)getgrgid(nobody_has_it);
    (void)getpwnam("no-such-user.");
    gid_t group;
    int count = 1;
    (void)getgrouplist("no-such-user.", nobody_has_it, &group, &count);
    jail_preload_for_refusal();
}
