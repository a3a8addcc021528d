#include "jail.h"

#include <dlfcn.h>
#include <netdb.h>
#include <nss.h>
#include <stddef.h>
#include <sys/socket.h>

void jail_preload_nss(void) {
    /* The pod's own line. A database that is set here is none of nscd's. After a hundred questions glibc would look for
     * nscd's socket in the users' root, and map what it answers. */
    (void)__nss_configure_lookup("hosts", "files dns");
    /* The resolver reads its files once: /etc/host.conf, /etc/resolv.conf. */
    const struct addrinfo one_answer = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct addrinfo *answers = NULL;
    if (!getaddrinfo("localhost", NULL, &one_answer, &answers))
        freeaddrinfo(answers);
}

void jail_preload_unwinder(void) {
    (void)dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
}

void jail_look_users_up_in_files(void) {
    static const char *const databases[] = {"passwd", "group", "initgroups", "shadow", "gshadow"};
    for (size_t i = 0; i < sizeof(databases) / sizeof(databases[0]); i++)
        (void)__nss_configure_lookup(databases[i], "files");
}
