/* A tracepoint of LTTng-UST's, for the test that it is a static probe where it is compiled with SDT integration. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER shop

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./sales.h"

#if !defined(SHOP_SALES_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SHOP_SALES_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    shop, sale,
    LTTNG_UST_TP_ARGS(int, customer, const char *, article, unsigned long, cents),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, customer, customer) lttng_ust_field_string(article, article)
                            lttng_ust_field_integer(unsigned long, cents, cents)))

#endif

#include <lttng/tracepoint-event.h>
