/* Habits of other languages (Python, PyTorch, C, Matlab, shells): what to write instead. Tables that messages read. */
#include <string.h>

#include "lang/parse/parser.h"
#include "lang/session.h"

/* ---------------------------------------------------------------- words */

static const struct {
    const char *word, *hint;
} habits[] = {
    {"def", "functions are written: fn name(a, b=1) { return a * b }"},
    {"func", "functions are written: fn name(a, b=1) { return a * b }"},
    {"throw", "write error(\"message\")"},
    {"function", "functions are written: fn name(a, b=1) { return a * b }"},
    {"lambda", "a function as a value is written: fn (x) { return x * 2 }"},
    {"import",
     "there is nothing to import: tensors and layers are built in; C libraries come with extern \"libm.so.6\" ..."},
    {"from",
     "there is nothing to import: tensors and layers are built in; C libraries come with extern \"libm.so.6\" ..."},
    {"using",
     "there is nothing to import: tensors and layers are built in; C libraries come with extern \"libm.so.6\" ..."},
    {"require",
     "there is nothing to import: tensors and layers are built in; C libraries come with extern \"libm.so.6\" ..."},
    {"library",
     "there is nothing to import: tensors and layers are built in; C libraries come with extern \"libm.so.6\" ..."},
    {"include", "a header of C is read by extern \"libz.so.1\" header <zlib.h>;"},
    {"extern", "the library is a string: extern \"libm.so.6\" double cos(double x);"},
    {"struct", "C's types are declared after extern: extern \"\" { struct point { double x, y; }; }, or in C { ... }"},
    {"enum", "C's types are declared after extern: extern \"\" { enum colour { RED, BLUE }; }, or in C { ... }"},
    {"union", "C's types are declared after extern: extern \"\" { union u { int i; float f; }; }, or in C { ... }"},
    {"typedef", "C's types are declared after extern: extern \"\" { typedef double real; }, or in C { ... }"},
    {"static", "functions in C stand in C { ... }"},
    {"elif", "write else if"},
    {"elseif", "write else if"},
    {"elsif", "write else if"},
    {"unless", "write if !x { ... }"},
    {"until", "write while !x { ... }"},
    {"foreach", "loops are written: for x in xs { ... }"},
    {"loop", "write while true { ... }"},
    {"goto", "break and continue leave a loop or go on with it, return leaves a function"},
    {"yield", "there are no generators: collect values in a list, xs.append(x)"},
    {"async", "statements run one after the other: call the function"},
    {"await", "statements run one after the other: call the function"},
    {"begin", "blocks stand in braces: if x > 0 { ... }"},
    {"end", "blocks stand in braces: if x > 0 { ... }"},
    {"endif", "blocks stand in braces: if x > 0 { ... }"},
    {"fi", "blocks stand in braces: if x > 0 { ... }"},
    {"done", "blocks stand in braces: for i in range(10) { ... }"},
    {"class", "there are no classes: use record(a=1) and functions"},
    {"except", "write try { ... } catch e { ... }"},
    {"raise", "write error(\"message\")"},
    {"del", "write unset NAME"},
    {"pass", "an empty block is { }"},
    {"nonlocal", "a function reads outer names and cannot assign them: return the value, or change a record's field"},
    {"global", "a function reads outer names and cannot assign them: return the value, or change a record's field"},
    {"with", "write no_grad { ... }"},
    {"do", "write while true { ... if done { break } }"},
    {"switch", "write if ... { } else if ... { }"},
    {"match", "write if ... { } else if ... { }"},
    {"case", "write if ... { } else if ... { }"},
    {"int", "variables have no declared types: x = 3"},
    {"long", "variables have no declared types: x = 3"},
    {"float", "variables have no declared types: x = 3.0"},
    {"double", "variables have no declared types: x = 3.0"},
    {"char", "variables have no declared types: s = \"text\""},
    {"bool", "variables have no declared types: x = true"},
    {"auto", "variables have no declared types: x = 3"},
    {"const", "variables have no declared types: x = 3"},
    {"unsigned", "variables have no declared types: x = 3"},
    {"void", "functions are written: fn name(a, b=1) { return a * b }"},
    {"short", "variables have no declared types: x = 3"},
    {"size_t", "variables have no declared types: x = 3"},
    {"string", "variables have no declared types: s = \"text\""},
    {"val", "variables need no declaration: x = 3"},
    {"let", "variables need no declaration: x = 3"},
    {"var", "variables need no declaration: x = 3"},
    {"local", "names assigned inside fn are local by themselves"},
    {"not", "write !x"},
};

static const struct {
    const char *word;
    const char *hint;
} operators[] = {
    {"and", "write &&"},
    {"or", "write ||"},
    {"not", "write !"},
    {"is", "write =="},
    {"mod", "write %"},
    {"div", "write //, which rounds down"},
    {"xor", "write ^"},
    {"then", "blocks stand in braces: if x > 0 { ... }"},
    {"unless", "write if !x { ... }"},
};

const char *dlsh_p_word_hint(const char *word) {
    for (size_t i = 0; word && i < sizeof habits / sizeof *habits; i++)
        if (!strcmp(word, habits[i].word)) return habits[i].hint;
    return NULL;
}

const char *dlsh_p_operator_hint(const dlsh_token *t) {
    for (size_t i = 0; t->kind == DLSH_T_NAME && i < sizeof operators / sizeof *operators; i++)
        if (t->len == (int)strlen(operators[i].word) && !memcmp(t->text, operators[i].word, (size_t)t->len))
            return operators[i].hint;
    return NULL;
}

static const struct {
    const char *name, *hint;
} foreign[] = {
    {"None", "write none"},
    {"nil", "write none"},
    {"null", "write none"},
    {"NULL", "write none"},
    {"undefined", "write none"},
    {"True", "write true"},
    {"False", "write false"},
    {"self", "there are no classes"},
    {"this", "there are no classes"},
    {"torch", "ops need no prefix: zeros(2, 3)"},
    {"np", "ops need no prefix: zeros(2, 3)"},
    {"numpy", "ops need no prefix: zeros(2, 3)"},
    {"math", "functions need no prefix: sqrt(2.0)"},
    {"nn", "layers stand in a net: net m { linear 10 }"},
    {"F", "ops need no prefix: relu(x)"},
    {"optim", "optimizers need no prefix: adam(lr=0.001)"},
    {"optimizer", "trainers have one: trainer(m, d, opt=adam(lr=0.001)); for a loop by hand o = adam(m.parameters())"},
    {"Infinity", "write inf"},
    {"NaN", "write nan"},
    {"Inf", "write inf"},
    {"dict", "write {a: 1, b: 2}"},
    {"printf", "write print(format(\"%d\", n)); C's printf comes with extern"},
    {"fprintf", "write print(format(\"%d\", n))"},
    {"sprintf", "write format(\"%d\", n)"},
    {"console", "write print(x)"},
    {"isinstance", "write type(x) == \"int\""},
    {"device", "the command device cuda chooses it"},
    {"ls", "vars lists the variables and runs the runs; Tab inside quotes lists files"},
    {"dir", "vars lists the variables; Tab behind x. lists the fields of x"},
    {"cd", "the folder is the one that dlsh was started in; paths may be absolute"},
    {"pwd", "the folder is the one that dlsh was started in"},
};

const char *dlsh_foreign_name(const char *name) {
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (!strcmp(foreign[i].name, name)) return foreign[i].hint;
    return dlsh_p_word_hint(name);
}

/* ---------------------------------------------------------------- signs */

const char *dlsh_p_sign_hint(const char *text, size_t len, size_t at) {
    static const char compound[] = "assignments are = += -= *= /=; write x = x ** 2";
    static const struct {
        const char *sign, *hint;
    } signs[] = {
        {"**=", compound},
        {"//=", compound},
        {"<<=", compound},
        {">>=", compound},
        {"===", "write =="},
        {"!==", "write !="},
        {"%=", compound},
        {"@=", compound},
        {"|=", compound},
        {"&=", compound},
        {"^=", compound},
        {":=", "write x = 3"},
        {"<>", "write !="},
        {"++", "there is no ++ and no unary +; write x += 1"},
        {"--", "there is no --; write x -= 1"},
        {"=>", "a function as a value is written: fn (x) { return x + 1 }"},
        {".*", "operators work element by element as they are: x * y, x ** 2; products of matrices are x @ y"},
        {"./", "operators work element by element as they are: x / y"},
        {".^", "operators work element by element as they are: x ** 2"},
        {"..", "a range is written range(0, 10), a slice x[0:10]"},
        {"??", "write x == none ? y : x"},
        {"?.", "a field is written x.f; x == none asks whether there is a value"},
        {"|>", "a function is called f(x), or behind its first argument x.f()"},
        {"%%", "write %"},
    };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t n = strlen(signs[i].sign);
        /* the sign was read in pieces: the error stands at one of them or behind the last */
        for (size_t back = 0; back <= n && back <= at; back++)
            if (at - back + n <= len && !memcmp(text + at - back, signs[i].sign, n)) return signs[i].hint;
    }
    return NULL;
}

const char *dlsh_p_prefix_hint(const char *text, const dlsh_token *t) {
    static const struct {
        dlsh_tok kind;
        const char *hint;
    } prefixes[] = {
        {DLSH_T_ADD, "there is no ++ and no unary +; write x += 1"},
        {DLSH_T_BITAND, "a variable has no address: new(\"int\") makes memory for C"},
        {DLSH_T_MUL, "what a pointer points to is p[0]"},
        {DLSH_T_MATMUL, "there are no decorators: write f = decorate(f)"},
        {DLSH_T_QUESTION, "help NAME tells about a name"},
        {DLSH_T_RPAREN, "an empty list is [], an empty record {}"},
    };
    const char *comment = dlsh_comment_habit(text, (size_t)t->span.start);
    for (size_t i = 0; !comment && i < sizeof prefixes / sizeof *prefixes; i++)
        if (prefixes[i].kind == t->kind) return prefixes[i].hint;
    return comment;
}

const char *dlsh_comment_habit(const char *text, size_t at) {
    size_t i = at;
    char quote = 0;
    while (i && text[i - 1] != '\n') i--;
    for (; i <= at && text[i]; i++) {
        if (quote) {
            if (text[i] == '\\' && text[i + 1])
                i++;
            else if (text[i] == quote)
                quote = 0;
        } else if (text[i] == '"' || text[i] == '\'')
            quote = text[i];
        else if (text[i] == '/' && text[i + 1] == '/')
            return "a comment begins with #; // divides and rounds down";
        else if (text[i] == '/' && text[i + 1] == '*')
            return "a comment begins with #";
    }
    return NULL;
}

const char *dlsh_arrow_habit(const char *text, size_t end) {
    while (text[end] == ' ') end++;
    return text[end] == '<' && text[end + 1] == '-' ? "an assignment is written x = 3; x < -3 compares" : NULL;
}

/* ---------------------------------------------------------------- names that are called otherwise here */

static const struct {
    const char *word, *here;
} synonyms[] = {
    {"axis", "dim"},
    {"axes", "dims"},
    {"keepdims", "keepdim"},
    {"learning_rate", "lr"},
    {"batch_size", "batch"},
    {"batchsize", "batch"},
    {"num_epochs", "epochs"},
    {"n_epochs", "epochs"},
    {"max_epochs", "epochs"},
    {"num_steps", "steps"},
    {"max_steps", "steps"},
    {"optimizer", "opt"},
    {"criterion", "loss"},
    {"loss_fn", "loss"},
    {"requires_grad", "grad"},
    {"num_workers", "workers"},
    {"grad_clip", "clip_norm"},
    {"max_norm", "clip_norm"},
    {"push", "append"},
    {"add", "append"},
    {"push_back", "append"},
    {"clc", "clear"},
    {"cls", "clear"},
    {"disp", "print"},
    {"echo", "print"},
    {"puts", "print"},
    {"println", "print"},
    {"cat", "print"},
    {"who", "vars"},
    {"whos", "vars"},
    {"source", "read"},
    {"run_script", "read"},
    {"evaluate", "eval"},
    {"test", "eval"},
    {"fit", "train"},
    {"history", "runs"},
    {"man", "help"},
    {"length", "len"},
    {"size", "len"},
    {"strlen", "len"},
    {"toupper", "upper"},
    {"tolower", "lower"},
    {"to_upper", "upper"},
    {"to_lower", "lower"},
    {"numpy", "tolist"},
    {"to_list", "tolist"},
    {"summary", "show"},
    {"describe", "show"},
    {"Adam", "adam"},
    {"SGD", "sgd"},
    {"manual_seed", "seed"},
    {"delete", "unset"},
    {"rm", "unset"},
    {"load_state_dict", "load"},
    {"Tensor", "tensor"},
    {"array", "tensor"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"items", "values"},
    {"state_dict", "state"},
    {"named_parameters", "state"},
    {"named_buffers", "state"},
    {"children", "summary"},
    {"modules", "summary"},
    {"mT", "T"},
    {"astype", "to"},
    {"type", "dtype"},
    {"nelement", "numel"},
    {"is_cuda", "device"},
    {"unbiased", "correction"},
    {"has_key", "keys"},
};

const char *dlsh_synonym(const char *word, const char *const *names, int n) {
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++) {
        if (strcmp(synonyms[i].word, word)) continue;
        for (int k = 0; k < n; k++)
            if (!strcmp(names[k], synonyms[i].here)) return names[k];
    }
    return NULL;
}
