/* slurmctld answers questions in HTTP, such as for its metrics, and takes no body with one. Slurm (26.05, http_con)
 * would keep 50 MiB of each connection, for anybody who reaches the port. It would also write a zero behind the body's
 * memory. */
#include "message_guard.h"

#include <pthread.h>
#include <stdio.h>

/* http_parser_content_t and http_parser_callbacks_t */
struct content {
    const struct buffer *bytes;
};
struct callbacks {
    void *request, *header, *headers_complete;
    int (*content)(const struct content *content, void *argument);
    void *content_complete, *parse_error;
};

int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state);

static int (*real_new)(const char *, const struct callbacks *, void *, void **);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct callbacks without_body;

static int refuse(const struct content *content, void *argument) {
    (void)argument;
    if (!content->bytes->read)
        return 0;
    fputs("error: refused the body of a question in HTTP\n", stderr);
    return REFUSED;
}

/* Slurm has one table of callbacks (http_con_assign_server), and keeps a pointer to it. */
int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state) {
    pthread_mutex_lock(&lock);
    if (!without_body.content) {
        without_body = *callbacks;
        without_body.content = refuse;
    }
    pthread_mutex_unlock(&lock);
    return real_new(name, &without_body, argument, state);
}

void http_find(void) {
    *(void **)&real_new = guard_find("http_parser_g_new_parse_request");
}
