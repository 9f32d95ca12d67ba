/* Loaded before the C library: a read of a file does not return, as if its storage did not answer.
   The file NAME.stalls marks the first read of NAME, which removes the mark; NAME.always marks all.
   While there is a file that STALLS_WHILE in the environment names, no read of an AVI file returns,
   nor, if STALLS_BELOW names a folder, any call about a path in it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static int is_below(const char *path)
{
    const char *folder = getenv("STALLS_BELOW");
    size_t length = folder ? strlen(folder) : 0;
    return length && !strncmp(path, folder, length) && (!path[length] || path[length] == '/');
}

static int note_down(void)
{
    const char *away = getenv("STALLS_WHILE");
    return away && access(away, F_OK) == 0;
}

static void wait_below(const char *path)
{
    while (path && is_below(path) && note_down())
        usleep(10000);
}

static void wait_if_marked(int file)
{
    char link[64], path[PATH_MAX + 16];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX);
    if (length <= 0 || path[0] != '/')
        return;
    path[length] = 0;
    while ((strstr(path, ".avi") || is_below(path)) && note_down())
        usleep(10000);
    strcpy(path + length, ".always");
    int marked = access(path, F_OK) == 0;
    strcpy(path + length, ".stalls");
    if (marked || unlink(path) == 0)
        for (;;)
            pause();
}

#define NEXT(result, name, ...)                      \
    static result (*next)(__VA_ARGS__);              \
    if (!next)                                       \
        next = dlsym(RTLD_NEXT, name);

ssize_t read(int file, void *to, size_t size)
{
    NEXT(ssize_t, "read", int, void *, size_t)
    wait_if_marked(file);
    return next(file, to, size);
}

ssize_t pread64(int file, void *to, size_t size, off64_t at)
{
    NEXT(ssize_t, "pread64", int, void *, size_t, off64_t)
    wait_if_marked(file);
    return next(file, to, size, at);
}

ssize_t pread(int file, void *to, size_t size, off_t at)
{
    return pread64(file, to, size, at);
}

#define STATUS(name, of)                             \
    int name(const char *path, struct of *to)        \
    {                                                \
        NEXT(int, #name, const char *, struct of *)  \
        wait_below(path);                            \
        return next(path, to);                       \
    }
STATUS(stat, stat)
STATUS(lstat, stat)
STATUS(stat64, stat64)
STATUS(lstat64, stat64)

#define STATUS_AT(name, of)                                          \
    int name(int folder, const char *path, struct of *to, int flags) \
    {                                                                \
        NEXT(int, #name, int, const char *, struct of *, int)        \
        wait_below(path);                                            \
        return next(folder, path, to, flags);                        \
    }
STATUS_AT(fstatat, stat)
STATUS_AT(fstatat64, stat64)

#define OPEN(name)                                   \
    int name(const char *path, int flags, ...)       \
    {                                                \
        va_list more;                                \
        va_start(more, flags);                       \
        mode_t mode = va_arg(more, mode_t);          \
        va_end(more);                                \
        NEXT(int, #name, const char *, int, ...)     \
        wait_below(path);                            \
        return next(path, flags, mode);              \
    }
OPEN(open)
OPEN(open64)

DIR *opendir(const char *path)
{
    NEXT(DIR *, "opendir", const char *)
    wait_below(path);
    return next(path);
}
