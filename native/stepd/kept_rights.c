#include "kept_rights.h"

#include <sys/syscall.h>
#include <unistd.h>

int kept_rights_reduce(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, sets))
        return -1;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        unsigned mine = i == 0 ? KEPT_RIGHTS : 0;
        sets[i].permitted &= mine;
        sets[i].effective &= mine;
        sets[i].inheritable &= mine;
    }
    return (int)syscall(SYS_capset, &header, sets);
}
