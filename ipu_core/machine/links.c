/* SPDX-License-Identifier: MIT */
#include "machine/links.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

ipu_link
ipu_link_between(const ipu_chip *chip, int64_t from, int64_t to)
{
    int64_t rungs = llabs(from / 2 - to / 2);
    int64_t pod = (int64_t)chip->pod_ipus;
    ipu_link link = {.bytes = rungs == 0 ? chip->link_bytes : chip->rung_bytes,
                     .seconds = chip->link_seconds};
    link.seconds += fmax(0, (double)rungs - 1) * chip->hop_seconds;
    if (from / pod != to / pod) {
        link.bytes = fmin(link.bytes, chip->gateway_bytes);
    }
    return link;
}

double
ipu_link_round(const ipu_chip *chip, double replicas, double replica_ipus,
               double bytes)
{
    if (replicas <= 1) {
        return 0;
    }
    /* only two IPUs are a pair; of more some links of the ring go to another one */
    bool is_pair = replicas * replica_ipus <= 2;
    ipu_link link =
        ipu_link_between(chip, 0, is_pair ? 1 : (int64_t)fmax(2, replica_ipus));
    /* the rings of a replica's IPUs go over the same rungs, two links side by side */
    double rings = fmax(1, replica_ipus / 2);
    link.bytes /= rings;
    if (replicas * replica_ipus > chip->pod_ipus) { /* the slowest link of a ring */
        link.bytes = fmin(link.bytes, chip->gateway_bytes);
    }
    return (replicas - 1) * (bytes / replicas / link.bytes + link.seconds);
}

double
ipu_link_host_rate(const ipu_chip *chip, double replicas, double replica_ipus)
{
    double streams = fmin(replicas, fmax(1, floor(chip->box_ipus / replica_ipus)));
    return fmin(chip->host_bytes, chip->box_bytes / streams);
}
