// SPDX-License-Identifier: Apache-2.0
#include "gbench.h"

#include <benchmark/benchmark.h>

namespace
{

// Keeps the measured run in place of printing it. (Google Benchmark reports
// calibration runs to the benchmark function, not here.)
class Keeper : public benchmark::BenchmarkReporter
{
  public:
    bool ReportContext(const Context &) override
    {
        return true;
    }
    void ReportRuns(const std::vector<Run> &runs) override
    {
        for (const Run &run : runs)
            if (run.run_type == Run::RT_Iteration && run.iterations > 0) {
                result.iterations = static_cast<uint64_t>(run.iterations);
                result.time_ns =
                    run.real_accumulated_time / static_cast<double>(run.iterations) * 1e9;
                reported = true;
            }
    }
    nb_gbench result{};
    bool reported = false;
};

} // namespace

bool nb_gbench_run(const char *name, void (*run)(void *context, size_t calls), void *context,
                   uint64_t iterations, double min_seconds, nb_gbench *result)
{
    benchmark::ClearRegisteredBenchmarks();
    auto *one = benchmark::RegisterBenchmark(name, [=](benchmark::State &state) {
        if (iterations != 1)
            run(context, 1); // wakes the threads
        const auto calls = state.max_iterations;
        while (state.KeepRunningBatch(calls))
            run(context, static_cast<size_t>(calls));
    });
    one->UseRealTime();
    if (iterations)
        one->Iterations(static_cast<benchmark::IterationCount>(iterations));
    else
        one->MinTime(min_seconds);
    Keeper keeper;
    benchmark::RunSpecifiedBenchmarks(&keeper, nullptr, "all");
    *result = keeper.result;
    return keeper.reported;
}
