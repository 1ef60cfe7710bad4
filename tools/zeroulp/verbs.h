// One function per verb, each in its own cmd_*.cpp. argv[0] is the verb; the result is the exit code.
#pragma once

namespace zeroulp::cli {

int cmd_cases(int argc, char** argv);
int cmd_bench(int argc, char** argv);
int cmd_bench_codec(int argc, char** argv);
int cmd_bench_transfer(int argc, char** argv);
int cmd_diff(int argc, char** argv);
int cmd_digest(int argc, char** argv);
int cmd_verify(int argc, char** argv);
int cmd_doctor(int argc, char** argv);
int cmd_faults(int argc, char** argv);
int cmd_quality(int argc, char** argv);
int cmd_quantize(int argc, char** argv);
int cmd_export(int argc, char** argv);
int cmd_import(int argc, char** argv);
int cmd_info(int argc, char** argv);
int cmd_pack(int argc, char** argv);
int cmd_peers(int argc, char** argv);
int cmd_unpack(int argc, char** argv);
int cmd_run(int argc, char** argv);
int cmd_tokenize(int argc, char** argv);

}  // namespace zeroulp::cli
