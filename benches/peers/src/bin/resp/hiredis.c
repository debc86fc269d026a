/* Reads a stream of replies with hiredis the way its users do: what was received is fed to a
 * reader, replies are taken from it as objects, looked at and freed. */

#include <stddef.h>
#include <string.h>

#include <hiredis/hiredis.h>

/* What hiredis itself reads from a socket at a time. */
#define ROOM_BYTES (16 * 1024)

static long long weigh(const redisReply *reply)
{
    long long sum = 0;
    switch (reply->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        return (long long)reply->len;
    case REDIS_REPLY_INTEGER:
        return reply->integer;
    case REDIS_REPLY_NIL:
        return 1;
    case REDIS_REPLY_ARRAY:
#ifdef REDIS_REPLY_MAP
    case REDIS_REPLY_MAP:
    case REDIS_REPLY_SET:
    case REDIS_REPLY_PUSH:
#endif
        for (size_t i = 0; i < reply->elements; i++)
            sum += weigh(reply->element[i]);
        return sum;
    default:
        return 0;
    }
}

/* Feeds `len` bytes, at most `piece` and ROOM_BYTES at a time, copied as from a socket if
 * `received`. Sets `sum` to the weight of all replies. Returns 0, or -1 with the reason in `why`,
 * of `why_len` bytes. */
int shearline_peers_hiredis(const char *bytes, size_t len, size_t piece, int received,
                            long long *sum, char *why, size_t why_len)
{
    char room[ROOM_BYTES];
    redisReader *reader = redisReaderCreate();
    if (reader == NULL)
        return -1;
    *sum = 0;
    while (len > 0) {
        size_t now = len < piece ? len : piece;
        const char *from = bytes;
        void *reply = NULL;
        if (now > ROOM_BYTES)
            now = ROOM_BYTES;
        if (received) {
            memcpy(room, bytes, now);
            from = room;
        }
        bytes += now;
        len -= now;
        if (redisReaderFeed(reader, from, now) != REDIS_OK)
            goto failed;
        for (;;) {
            if (redisReaderGetReply(reader, &reply) != REDIS_OK)
                goto failed;
            if (reply == NULL)
                break;
            *sum += weigh(reply);
            freeReplyObject(reply);
        }
    }
    redisReaderFree(reader);
    return 0;

failed:
    strncpy(why, reader->errstr, why_len - 1);
    why[why_len - 1] = '\0';
    redisReaderFree(reader);
    return -1;
}

/* Its version as one number: 1.2.3 is 10203. */
int shearline_peers_hiredis_version(void)
{
    return HIREDIS_MAJOR * 10000 + HIREDIS_MINOR * 100 + HIREDIS_PATCH;
}
