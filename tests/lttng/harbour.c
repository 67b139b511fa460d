/* Loads a library of ferry.c's provider (first argument) so many times (second), calls it, and with a third one unloads it each time. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    for (int round = 0; round < atoi(argv[2]); round++) {
        void *library = dlopen(argv[1], RTLD_NOW);
        int (*sail)(int, char **) = library ? (int (*)(int, char **))dlsym(library, "sail") : NULL;
        char *arguments[] = { "sail", "10" };
        if (!sail) {
            puts(dlerror());
            return 1;
        }
        sail(2, arguments);
        if (argc > 3)
            dlclose(library);
    }
    return 0;
}
