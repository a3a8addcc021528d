/* slurmctld answers questions in HTTP, such as for its metrics, and takes no body with one. Slurm (26.05, http_con)
 * would keep 50 MiB of each connection, for anybody who reaches the port. It would also write a zero behind the body's
 * memory.
 *
 * Slurm would answer all questions that have come, and keep the answers. A megabyte has thousands of questions, each of
 * which may be for all metrics of all users. So of questions that come at once only the first is answered. And Slurm's
 * parser does not free a head line that it refuses: it learns of that behind the last one. */
#include "message_guard.h"

#include <pthread.h>
#include <stdio.h>

/* http_parser_content_t and http_parser_callbacks_t */
struct content {
    const struct buffer *bytes;
};
struct callbacks {
    int (*request)(const void *request, void *argument); /* Comes behind the head's lines. */
    int (*header)(const void *header, void *argument);
    void *headers_complete;
    int (*content)(const struct content *content, void *argument);
    void *content_complete, *parse_error;
};

int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state);
int http_parser_g_parse_request(void *state, const void *bytes, ssize_t *parsed);

static int (*real_new)(const char *, const struct callbacks *, void *, void **);
static int (*real_parse)(void *, const void *, ssize_t *);
static int (*real_request)(const void *, void *);
static int (*real_header)(const void *, void *);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct callbacks guarded;
/* Of the bytes that this thread parses. */
static __thread struct {
    unsigned questions;
    int refused;
} parsed_now;

static int refuse_body(const struct content *content, void *argument) {
    (void)argument;
    if (!content->bytes->read)
        return 0;
    fputs("error: refused the body of a question in HTTP\n", stderr);
    return REFUSED;
}

static int take_header(const void *header, void *argument) {
    if (!parsed_now.refused)
        parsed_now.refused = real_header(header, argument);
    return 0;
}

static int take_first(const void *request, void *argument) {
    if (parsed_now.refused)
        return parsed_now.refused;
    if (parsed_now.questions++ == 0)
        return real_request(request, argument);
    fputs("error: refused questions in HTTP that came at once\n", stderr);
    return REFUSED;
}

int http_parser_g_parse_request(void *state, const void *bytes, ssize_t *parsed) {
    parsed_now.questions = 0;
    parsed_now.refused = 0;
    return real_parse(state, bytes, parsed);
}

/* Slurm has one table of callbacks (http_con_assign_server), and keeps a pointer to it. */
int http_parser_g_new_parse_request(const char *name, const struct callbacks *callbacks, void *argument, void **state) {
    pthread_mutex_lock(&lock);
    if (!guarded.content) {
        real_request = callbacks->request;
        real_header = callbacks->header;
        guarded = *callbacks;
        guarded.request = take_first;
        guarded.header = take_header;
        guarded.content = refuse_body;
    }
    pthread_mutex_unlock(&lock);
    return real_new(name, &guarded, argument, state);
}

void http_find(void) {
    *(void **)&real_new = guard_find("http_parser_g_new_parse_request");
    *(void **)&real_parse = guard_find("http_parser_g_parse_request");
}
