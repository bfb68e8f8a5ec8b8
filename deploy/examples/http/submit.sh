#!/bin/sh
# Run a command on a cluster, show its output, and end with 0 if it succeeded. Needs only curl.
#
#   export GANTRY_REMOTE=https://gantry.example.com:5080 GANTRY_CA=rapi.crt GANTRY_TOKEN=...
#   ./submit.sh 'apt-get --yes upgrade'
#
# The same GANTRY_KEY is the same job: a script that is started again does not submit again.
set -eu

: "${GANTRY_REMOTE:?is the address of the cluster}" "${GANTRY_TOKEN:?is the token}" "${GANTRY_CA:?has the certificate}"
key=${GANTRY_KEY:-$(cat /proc/sys/kernel/random/uuid)}

# the token goes over a pipe: arguments are seen by other users
call() {
    path=$1
    shift
    printf 'header = "Authorization: Bearer %s"\n' "$GANTRY_TOKEN" |
        curl --config - --silent --show-error --fail-with-body --cacert "$GANTRY_CA" \
            --retry 8 --retry-connrefused "$@" "$GANTRY_REMOTE$path"
}

words=$(printf %s "$1" | tr '\n' ';' | sed 's/[\\"]/\\&/g')
job='{"jobs": [{"ops": [{"OP_ID": "OP_RUN_COMMAND", "shell": true, "argv": ["'$words'"]}]}]}'
reply=$(call /3/jobs --header "Idempotency-Key: $key" --json "$job") || { echo "$reply" >&2; exit 1; }
id=$(echo "$reply" | sed 's/.*"id": *\([0-9]*\).*/\1/')
# ends when the job has ended
call "/3/jobs/$id/output?follow=true" --no-buffer
call "/3/jobs/$id?fields=status" | grep -q '"status": *"success"'
