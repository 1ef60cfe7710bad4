// A chat template of arbitrary bytes: it renders within its budget or is refused with a line.
#include "base/check.h"
#include "base/text.h"
#include "tokenizer/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace zeroulp::tokenizer;
  const auto t = jinja::Template::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!t) {
    ZU_CHECK(t.error().text.find('\n') == std::string::npos);
    return 0;
  }
  static const auto variables = jinja::parse_content_json(
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":" <é>\n"}],"tools":[{"name":"f","a":[1,2.5,null,true]}],)"
      R"("x":[3,1,2],"s":"Hello 'you'","d":{"b":1,"a":"z"},"add_generation_prompt":true,"bos_token":"<s>"})",
      "variables");
  const auto text = t->render(*variables->dict(), {{.steps = 20000, .bytes = 4 << 20, .output = 1 << 16, .depth = 100}, 0, true});
  if (!text) return 0;
  ZU_CHECK(zeroulp::is_utf8(text->bytes));
  size_t done = 0;
  for (const ByteSpan& span : text->content) {
    ZU_CHECK(span.begin < span.end && span.begin >= done && span.end <= text->bytes.size());
    done = span.end;
  }
  return 0;
}
