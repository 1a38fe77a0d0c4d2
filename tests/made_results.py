# SPDX-License-Identifier: Apache-2.0
"""Results that tests make up: rows as normbench writes them, and machine files."""
import csv
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "scripts"))
sys.dont_write_bytecode = True

HEADER = ("schema,run_id,started_utc,machine,cpu,commit,compiler,provider,kernel,algorithm,dtype,"
          "param_dtype,isa,rows,hidden,threads,level,mode,working_set_bytes,process,repetition,"
          "iterations,time_ns,bytes,flops,pair,slot,error_ulp,status").split(",")


def observation(kernel, time_ns, /, **other):
    row = dict.fromkeys(HEADER, "")
    row.update(schema=1, run_id="run0", started_utc="2026-01-01T00:00:00Z", machine="aaaaaaaa",
               cpu="A CPU", commit="c0", compiler="gcc", provider="normkernels", kernel=kernel,
               algorithm="default", dtype="f32", param_dtype="f32", isa="avx2", rows=32, hidden=768,
               threads=1, level="L2", mode="hot", process=0, repetition=0, time_ns=time_ns,
               status="ok")
    row.update(other)
    return row


def write_csv(path, rows, header=HEADER):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_machine_file(path, run_id="run0", complete=True, **other):
    """Beside the CSV at `path`."""
    with open(os.path.splitext(path)[0] + ".json", "w", encoding="utf-8") as file:
        json.dump({"schema": 1, "complete": complete, "run_id": run_id, **other}, file)


def store(path, rows, header=HEADER, **machine):
    """Both; returns the path of the CSV."""
    write_csv(path, rows, header)
    write_machine_file(path, rows[0]["run_id"], **machine)
    return path


def claim_rows(savings, processes=6, pairs=3, copy=0.5, **other):
    """As `claim` writes them, one cell: slot by slot, and in each process another
    saving of those given: LayerNorm takes 1000 ns, the copy `copy` of that."""
    rows = []
    for process in range(processes):
        saving = savings[process % len(savings)]
        for pair in range(pairs):
            drift = 1 + 0.5 * pair  # of the clock: it must cancel
            common = {"process": process, "repetition": pair, "pair": pair, "error_ulp": 1.5,
                      "bytes": 8192, **other}
            rows += [observation("layernorm", 1000 * drift, slot=0, **common),
                     observation("rmsnorm", 1000 * drift * (1 - saving), slot=1, **common),
                     observation("copy", 1000 * drift * copy, slot=2,
                                 **{**common, "isa": "avx512"}),
                     observation("layernorm", 1600 * drift, slot=3, **{**common, "algorithm":
                                                                       "two_pass"})]
    return rows


MACHINE = {"hash": "aaaaaaaa", "cpu": "A CPU", "cores": 4, "cores_allowed": 2, "core_hz": 3.21e9,
           "memory_bytes": 16 << 30, "caches": [{"name": "L1d", "bytes": 49152},
                                                {"name": "L2", "bytes": None}]}


def store_claim(path, change=0.0, **other):
    """Two ISAs, two levels, three hidden sizes; two types at one of them."""
    rows = []
    for isa, faster in (("scalar", 0.4), ("avx2", 0.2)):
        for level, slower in (("L1", 0.0), ("memory", 0.15)):
            for hidden in (768, 1600, 4096):
                saving = faster - slower - hidden / 1e5 + change
                for dtype in ("f32", "bf16") if hidden == 768 else ("f32",):
                    rows += claim_rows([saving + 0.004 * p for p in range(6)], isa=isa, level=level,
                                       hidden=hidden, rows=8192 * 8 // hidden, dtype=dtype,
                                       param_dtype=dtype, **other)
    return store(path, rows, command="claim", arguments=["--seed=1"], machine=MACHINE, cells=[
        {"name": "rmsnorm/hidden:99999", "skipped": "a row takes <more> than L1"}])
