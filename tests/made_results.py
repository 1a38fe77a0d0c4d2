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
