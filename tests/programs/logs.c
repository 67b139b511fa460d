/* Messages of several levels, some of which call a function; prints how often that was called, and what errno is in between. */
/* A macro of that name is common. */
#define DEBUG 1

#include "weir/log.h"

static int called;

static int count(void)
{
	return ++called;
}

int main(void)
{
	int wrong = 0;
	for (int n = 0; n < 3; n++) {
		errno = 7;
		WEIR_LOG(INFO, "number %d of %s", n, "three");
		if (n == 1)
			WEIR_LOG(ERR, "plain");
		else
			WEIR_LOG(DEBUG, "%d: %0*d", count(), 2000, n);
		wrong += errno != 7;
	}
	printf("%d %d\n", called, wrong);
	return 0;
}
