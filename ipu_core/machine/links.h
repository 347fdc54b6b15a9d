/* SPDX-License-Identifier: MIT
 *
 * What lies between IPUs, and between them and the host. IPUs are a ladder of pairs, up
 * to as many as a pod has; pods are joined by gateways. The IPUs of a box share a host's
 * link. A replica has a power of two of IPUs, the next replica those after them. */
#ifndef IPU_MACHINE_LINKS_H
#define IPU_MACHINE_LINKS_H

#include "machine/chip.h"

typedef struct ipu_link {
    double bytes;   /* a second */
    double seconds; /* until the first one is there */
} ipu_link;

ipu_link ipu_link_between(const ipu_chip *chip, int64_t from, int64_t to);
/* Seconds in which `bytes` of an IPU of each replica go once round a ring of these,
 * each with its share of the bytes: a gather, or a scatter; an all-reduce is both. */
double ipu_link_round(const ipu_chip *chip, double replicas, double replica_ipus,
                      double bytes);
/* Bytes a second between the host and an IPU of each replica, all at the same time. */
double ipu_link_host_rate(const ipu_chip *chip, double replicas, double replica_ipus);

#endif
