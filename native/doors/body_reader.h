/* Reads a message's body before Slurm does. */
#ifndef PULUMI_SLURM_BODY_READER_H
#define PULUMI_SLURM_BODY_READER_H

#include "message_guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEP_ID 20 /* pack_step_id_members: the job's numbers, the step's, and its component's. */

struct reader {
    const unsigned char *at;
    size_t left;
    bool failed;
};

static inline struct reader reader_of(const void *buffer) {
    const struct buffer *whole = buffer;
    bool is_sound = whole->read <= whole->size;
    return (struct reader){.at = whole->data + (is_sound ? whole->read : 0),
                           .left = is_sound ? whole->size - whole->read : 0};
}

static inline const unsigned char *take(struct reader *reader, uint64_t size) {
    const unsigned char *taken = reader->at;
    if (reader->failed || size > reader->left) {
        reader->failed = true;
        return NULL;
    }
    reader->at += size;
    reader->left -= size;
    return taken;
}

static inline uint32_t number(struct reader *reader) {
    const unsigned char *at = take(reader, 4);
    return at ? (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3] : 0;
}

static inline uint32_t skip_array(struct reader *reader, uint64_t width) {
    uint32_t count = number(reader);
    take(reader, count * width);
    return count;
}

#endif
