/* Words and signs of other languages (Python, PyTorch, C, Matlab, shells), and what to write instead: tables of hints.
 */
#include <string.h>

#include "lang/eval/args.h"
#include "lang/parse/parser.h"
#include "lang/session.h"

/* ---------------------------------------------------------------- words */

/* Words separated by |, and what to write instead. */
typedef struct habit {
    const char *words, *hint;
} habit;

static const habit habits[] = {
    {"def|func|function|void", "functions are written: fn name(a, b=1) { return a * b }"},
    {"throw|raise", "write error(\"message\")"},
    {"lambda", "a function as a value is written: fn (x) { return x * 2 }"},
    {"import|from|using|require|library",
     "there is nothing to import: tensors and layers are built in; C libraries come with extern \"libm.so.6\" ..."},
    {"include", "a script is read by read \"file.dlsh\", a header of C by extern \"libz.so.1\" header <zlib.h>;"},
    {"source|exec|execfile|execute", "a script is read by read \"file.dlsh\""},
    {"extern", "the library is a string: extern \"libm.so.6\" double cos(double x);"},
    {"struct", "C's types are declared after extern: extern \"\" { struct point { double x, y; }; }, or in C { ... }"},
    {"enum", "C's types are declared after extern: extern \"\" { enum colour { RED, BLUE }; }, or in C { ... }"},
    {"union", "C's types are declared after extern: extern \"\" { union u { int i; float f; }; }, or in C { ... }"},
    {"typedef", "C's types are declared after extern: extern \"\" { typedef double real; }, or in C { ... }"},
    {"static", "functions in C stand in C { ... }"},
    {"elif|elseif|elsif", "write else if"},
    {"unless", "write if !x { ... }"},
    {"until", "write while !x { ... }"},
    {"foreach", "loops are written: for x in xs { ... }"},
    {"loop", "write while true { ... }"},
    {"goto", "break and continue leave a loop or go on with it, return leaves a function"},
    {"yield", "there are no generators: collect values in a list, xs.append(x)"},
    {"async|await", "statements run one after the other: call the function"},
    {"begin|end|endif|fi", "blocks stand in braces: if x > 0 { ... }"},
    {"done", "blocks stand in braces: for i in range(10) { ... }"},
    {"class",
     "there are no classes: a module is net m { fc: linear 8; forward(x) { return fc(x) } }, values go together in "
     "record(a=1)"},
    {"except", "write try { ... } catch e { ... }"},
    {"del", "write unset NAME; xs.pop(0) takes an item out of a list, r.drop(\"a\") a field out of a record"},
    {"pass", "an empty block is { }"},
    {"nonlocal|global",
     "a function reads outer names and cannot assign them: return the value, or change a record's field"},
    {"with",
     "there are no context managers: no_grad { ... } is a statement, read_text(path) and load(path) read files"},
    {"do", "write while true { ... if done { break } }"},
    {"switch|match|case", "write if ... { } else if ... { }"},
    {"int|long|auto|const|unsigned|short|size_t", "variables have no declared types: x = 3"},
    {"float|double", "variables have no declared types: x = 3.0"},
    {"char|string", "variables have no declared types: s = \"text\""},
    {"bool", "variables have no declared types: x = true"},
    {"val|let|var", "variables need no declaration: x = 3"},
    {"local", "names assigned inside fn are local by themselves"},
    {"not", "write !x"},
    {"inference_mode", "write no_grad { ... }"},
};

static const habit operators[] = {
    {"and", "write &&"},
    {"or", "write ||"},
    {"not", "write !; x not in xs is !(x in xs)"},
    {"is", "write =="},
    {"mod", "write %"},
    {"div", "write //, which rounds down"},
    {"xor", "write ^"},
    {"then", "blocks stand in braces: if x > 0 { ... }"},
    {"unless", "write if !x { ... }"},
};

/* The hint of the row that has this word; NULL. */
static const char *hint_for(const habit *rows, size_t n, const char *word, size_t len) {
    for (size_t i = 0; i < n; i++)
        if (dlsh_has_word(rows[i].words, word, len)) return rows[i].hint;
    return NULL;
}
#define HINT_FOR(rows, word, len) hint_for(rows, sizeof(rows) / sizeof *(rows), word, len)

const char *dlsh_p_word_hint(const char *word) { return word ? HINT_FOR(habits, word, strlen(word)) : NULL; }

const char *dlsh_p_operator_hint(const dlsh_token *t) {
    return t->kind == DLSH_T_NAME ? HINT_FOR(operators, t->text, (size_t)t->len) : NULL;
}

static const habit foreign[] = {
    {"None|nil|null|NULL|undefined", "write none"},
    {"True", "write true"},
    {"False", "write false"},
    {"self|this", "there are no classes; within the functions of a net self is that net"},
    {"torch|np|numpy", "ops need no prefix: zeros(2, 3)"},
    {"math", "functions need no prefix: sqrt(2.0)"},
    {"nn|Linear|Conv1d|Conv2d|Conv3d|ConvTranspose2d|BatchNorm1d|BatchNorm2d|LayerNorm|GroupNorm|Embedding|Dropout|"
     "MaxPool2d|ReLU|GELU|Tanh|Sigmoid|Flatten|MultiheadAttention|TransformerEncoderLayer|LSTM|GRU|RNN",
     "layers stand in a net: net m { linear 10 }; help layers lists them"},
    {"F|linalg|special", "ops need no prefix: relu(x), inv(x), expit(x)"},
    {"optim", "optimizers need no prefix: adam(lr=0.001)"},
    {"optimizer", "trainers have one: trainer(m, d, opt=adam(lr=0.001)); for a loop by hand o = adam(m.parameters())"},
    {"DataLoader", "write loader(d, batch=32, shuffle=true)"},
    {"ConcatDataset|ChainDataset", "write concat_dataset([a, b])"},
    {"StackDataset", "write dataset({a: a.train.x, b: b.train.x, y: a.train.y})"},
    {"Subset", "write subset(d, numbers)"},
    {"iter", "next(l) gives the next batch of a loader; loops need no iterator: for x, y in l { ... }"},
    {"Dataset|TensorDataset|IterableDataset", "write dataset(x, y), or dataset(fn (i) { return [x, y] }, n=1000)"},
    {"ImageFolder", "write dataset(\"images\", \"photos\", size=224)"},
    {"SequentialSampler|BatchSampler|WeightedRandomSampler|RandomSampler|SubsetRandomSampler",
     "write sampler(\"weighted\", weights), sampler(\"random\"), sampler(\"subset\", numbers)"},
    {"KFold|StratifiedKFold", "write kfold(d, 5, shuffle=true, stratified=true)"},
    {"Compose|ToTensor|transforms",
     "transforms are text: loader(d, transforms=\"crop 4, flip\"); help transforms lists them"},
    {"CrossEntropyLoss|NLLLoss", "losses are functions: cross_entropy(output, y)"},
    {"MSELoss|L1Loss|SmoothL1Loss|HuberLoss|KLDivLoss|CTCLoss|TripletMarginLoss|CosineEmbeddingLoss",
     "losses are functions: mse_loss(output, y); help loss lists them"},
    {"PoissonNLLLoss|GaussianNLLLoss|MultiLabelMarginLoss|MultiLabelSoftMarginLoss|MultiMarginLoss|SoftMarginLoss|"
     "MarginRankingLoss|HingeEmbeddingLoss",
     "losses are functions in small letters: poisson_nll_loss(output, y); help loss lists them"},
    {"BCELoss|BCEWithLogitsLoss", "losses are functions: binary_cross_entropy_with_logits(output, y)"},
    {"Sequential|Module", "write net m { linear 8 -> relu; linear 2 }"},
    {"ModuleList|ModuleDict", "a list of layers stands in a net: blocks: list 4 { linear 8 -> relu }"},
    {"ParameterList|ParameterDict", "a net declares each: net m { param a [3]; param b [4]; ... }"},
    {"LeakyReLU|PReLU|ELU|SELU|SiLU|Softmax|Softplus",
     "layers stand in a net, in small letters: net m { linear 8 -> leaky_relu }"},
    {"Parameter", "a net declares it, net m { param w [3, 4]; ... }; elsewhere write param(x)"},
    {"init", "an option of the layer: linear 10 init=\"kaiming_normal\"; of a tensor that exists: xavier_uniform_(w)"},
    {"SparseAdam", "write sparse_adam(m.parameters(), lr=0.001)"},
    {"AdamW|NAdam|RAdam|RMSprop|Adagrad|Adadelta|Adamax|ASGD|Rprop|LBFGS",
     "optimizers are functions in small letters: adamw(m.parameters(), lr=0.001)"},
    {"Normal|Categorical|Bernoulli|Uniform|Beta|Gamma|MultivariateNormal|Laplace|Dirichlet|Exponential|distributions",
     "write distribution(\"normal\", 0, 1), distribution(\"categorical\", logits=x); help distribution lists them"},
    {"amp", "write autocast { ... }, or precision bf16 for all that follows"},
    {"set_printoptions", "write set digits 8"},
    {"symeig", "write eigh(x)"},
    {"are_deterministic_algorithms_enabled|get_deterministic_debug_mode", "set deterministic prints it"},
    {"get_float32_matmul_precision|is_autocast_enabled", "the command precision without a name prints it"},
    {"use_deterministic_algorithms|set_deterministic_debug_mode",
     "results repeat bit for bit; set deterministic off allows others"},
    {"set_float32_matmul_precision", "write precision tf32, or precision f32"},
    {"set_anomaly_enabled|detect_anomaly|set_detect_anomaly|is_anomaly_enabled",
     "set nan stop makes an op fail that makes a NaN; why nan tells where one comes from"},
    {"nuclear_norm|frobenius_norm", "write matrix_norm(x, ord=\"nuc\"), matrix_norm(x)"},
    {"upsample_nearest|upsample_bilinear", "write interpolate(x, scale_factor=2, mode=\"nearest\")"},
    {"channels_last|channels_last_3d|contiguous_format|preserve_format|memory_format",
     "kernels choose how they lay out what they compute with"},
    {"SyncBatchNorm", "write batchnorm: there is one process"},
    {"Buffer", "a net declares it: net m { buffer mean [3]; ... }"},
    {"max_memory_reserved|memory_cached|max_memory_cached", "write memory_reserved(), max_memory_allocated()"},
    {"is_bf16_supported", "precision bf16 and autocast { ... } work on every device"},
    {"resize_as_", "write x = y.reshape(x.shape)"},
    {"fill", "write full_like(x, 3), or x.fill_(3) to change x itself"},
    {"spsolve", "write solve(A.to_dense(), b)"},
    {"sampled_addmm", "write sddmm(...): help sddmm"},
    {"Softmax2d", "write softmax dim=1"},
    {"TransformedDistribution|AffineTransform|ExpTransform|SigmoidTransform|TanhTransform|ComposeTransform|"
     "SoftmaxTransform|StickBreakingTransform|PowerTransform|AbsTransform|SoftplusTransform|CatTransform|"
     "StackTransform|"
     "ReshapeTransform|IndependentTransform|CorrCholeskyTransform|LowerCholeskyTransform|PositiveDefiniteTransform|"
     "CumulativeDistributionTransform|identity_transform",
     "write distribution(\"transformed_distribution\", d, [bijector(\"tanh\"), bijector(\"affine\", 0, 2)])"},
    {"Independent|RelaxedBernoulli|RelaxedOneHotCategorical|OneHotCategorical|Multinomial|Wishart|LKJCholesky|"
     "LowRankMultivariateNormal|FisherSnedecor|Cauchy|Chi2|Geometric|Gumbel|HalfCauchy|Kumaraswamy|NegativeBinomial|"
     "Pareto|"
     "VonMises|Weibull|OneHotCategoricalStraightThrough|InverseGamma|StudentT|LogNormal|HalfNormal|MixtureSameFamily",
     "distributions are named in small letters: distribution(\"one_hot_categorical\", logits=x); help distribution "
     "lists "
     "them"},
    {"AveragedModel|get_ema_multi_avg_fn|get_swa_multi_avg_fn",
     "write e = m.copy(), then e.update_parameters(m, decay=0.999) after each step"},
    {"SWALR", "write s = scheduler(o, fn (i) { return i < 100 ? 1 : 0.1 })"},
    {"default_collate|default_convert",
     "loaders join samples by themselves; loader(d, collate=fn (samples) { ... }) does it otherwise"},
    {"Stream|Event|current_stream",
     "work on a GPU runs in order; synchronize() waits for it, time STATEMENT takes the time"},
    {"get_device_properties|get_device_capability", "get_device_name(\"cuda\") has them"},
    {"mem_get_info", "write memory_available(\"cuda\")"},
    {"memory_summary|memory_stats", "show memory lists what is used"},
    {"grid_sampler|grid_sampler_2d|grid_sampler_3d", "write grid_sample(x, grid)"},
    {"constant_pad_nd", "write pad(x, [1, 1], value=0)"},
    {"typename", "write type(x)"},
    {"frombuffer|from_file", "load(\"x.npy\") reads a file of NumPy; memory of C becomes a tensor by from_c"},
    {"empty_strided|empty_permuted", "write empty(sizes).as_strided(sizes, strides)"},
    {"constraints", "constraints are named: biject_to(\"simplex\"), transform_to(\"interval\", 0, 1)"},
    {"from_numpy", "load(\"x.npy\") reads a file of NumPy; tensor(list) makes a tensor of numbers"},
    {"StepLR|MultiStepLR|ExponentialLR|CosineAnnealingLR|OneCycleLR|CyclicLR|ReduceLROnPlateau|LambdaLR|"
     "MultiplicativeLR|"
     "lr_scheduler",
     "s = scheduler(o, \"cosine\", 1000), and s.step() behind o.step(); help schedules lists them"},
    {"autograd", "grad(y, x, create_graph=true) gives gradients; autograd_function(FORWARD, BACKWARD) has its own"},
    {"Function", "write f = autograd_function(fn (ctx, x) { ... }, fn (ctx, g) { ... })"},
    {"pack_padded_sequence|pad_packed_sequence|pack_sequence|unpack_sequence|PackedSequence",
     "padded sequences are taken as they are: rnn(x, lengths=[5, 3])"},
    {"fork_rng", "write r = rng_state(); ...; set_rng_state(r)"},
    {"set_default_device|set_device|current_device",
     "the command device cuda chooses it, and get_default_device() tells which it is"},
    {"LinearCrossEntropyLoss", "losses are functions: linear_cross_entropy(x, m.head.weight, y)"},
    {"ContinuousBernoulli|GeneralizedPareto|LogisticNormal",
     "write distribution(\"continuous_bernoulli\", 0.3), distribution(\"logistic_normal\", loc, scale)"},
    {"LazyLinear|LazyConv1d|LazyConv2d|LazyConv3d|LazyBatchNorm1d|LazyBatchNorm2d|LazyBatchNorm3d|LazyConvTranspose2d|"
     "LazyInstanceNorm2d",
     "all layers infer the size of their input: net m { conv 16 k=3 -> batchnorm -> relu -> flatten -> linear 10 }"},
    {"compile", "there is nothing to compile: trainers replay their steps as graphs on a GPU"},
    {"Generator|generator", "seed 42 seeds all random numbers; rng_state() and set_rng_state(s) keep and restore them"},
    {"manual_seed_all|seed_all", "seed 42 seeds the random numbers of all devices"},
    {"LongTensor|FloatTensor|DoubleTensor|ByteTensor|BoolTensor|IntTensor|HalfTensor|Tensor",
     "write tensor([1, 2]), empty(2, 3), zeros(2, 3, dtype=i64)"},
    {"newaxis", "write x[none] or x.unsqueeze(0)"},
    {"tqdm", "write for x, y in progress(batches) { ... }"},
    {"SummaryWriter|wandb|mlflow", "runs are recorded: r = start_run(\"name\"); r.log(loss=l)"},
    {"Infinity|Inf", "write inf"},
    {"NaN", "write nan"},
    {"dict", "write {a: 1, b: 2}"},
    {"set|frozenset", "unique(xs) gives the items of a list that differ, sorted; a record has each name once"},
    {"printf", "write print(format(\"%d\", n)); C's printf comes with extern"},
    {"fprintf", "write print(format(\"%d\", n))"},
    {"sprintf", "write format(\"%d\", n)"},
    {"console", "write print(x)"},
    {"isinstance", "write type(x) == \"int\""},
    {"device", "the command device cuda chooses it"},
    {"ls", "list_dir() lists files, vars the variables, runs the runs"},
    {"os|shutil|pathlib|Path", "files need no prefix: list_dir, make_dir, exists, glob, path, remove_file, copy_file"},
    {"mkdir|makedirs", "write make_dir(\"out\")"},
    {"listdir|scandir", "write list_dir(\"data\")"},
    {"rm|unlink|rmdir|rmtree", "write remove_file(\"old.csv\"), or remove_dir(\"old\", all=true)"},
    {"cp|copyfile", "write copy_file(\"a.csv\", \"b.csv\")"},
    {"mv", "write rename_file(\"a.csv\", \"b.csv\")"},
    {"dir", "vars lists the variables; Tab behind x. lists the fields of x"},
    {"cd", "the folder is the one that dlsh was started in; paths may be absolute"},
    {"pwd", "the folder is the one that dlsh was started in"},
};

const char *dlsh_foreign_name(const char *name) {
    const char *hint = HINT_FOR(foreign, name, strlen(name));
    return hint ? hint : dlsh_p_word_hint(name);
}

/* Behind a dot. */
static const habit methods[] = {
    {"register_backward_hook", "write m.head.register_full_backward_hook(fn (layer, grad_input, grad_output) { ... })"},
    {"register_buffer", "the net declares it: net m { buffer mean [3]; ... }"},
    {"register_parameter", "the net declares it: net m { param w [3, 4] std=0.02; ... }"},
    {"add_module|register_module",
     "the net declares its parts: net m { head: linear 10 }; m.head = net { linear 3 } replaces one"},
    {"forward", "a net is called: m(x)"},
    {"cuda", "write x.to(\"cuda\")"},
    {"cpu", "write x.to(\"cpu\")"},
    {"half|float|double|bfloat16", "write m.to(f64); dtypes are f32 f64 f16 bf16"},
    {"in_features|out_features|in_channels|out_channels|num_features|input_size|embedding_dim",
     "input sizes are inferred; m.fc.weight.shape has the sizes, [out, in]"},
    {"get_submodule|get_parameter", "a path finds it: m[\"body.linear0\"], m[\"body.linear0.weight\"]"},
    {"squeeze_|unsqueeze_|t_|transpose_|swapaxes_|movedim_", "shapes are not changed in place: write x = x.squeeze()"},
    {"detach_", "write x = x.detach()"},
    {"numpy", "x.tolist() gives lists; save x \"x.npy\" writes a file of NumPy"},
    {"share_memory_|pin_memory|data_ptr|storage|untyped_storage|storage_offset|layout|is_sparse|coalesce",
     "memory is laid out and moved by itself; x.stride() and x.is_contiguous() tell how elements lie"},
    {"apply_|map_", "map(f, xs) calls a function of lists; vmap(f) one of tensors, for each sample"},
    {"unsafe_chunk|unsafe_split|unsafe_split_with_sizes", "write x.chunk(n), x.split(n) or x.split([1, 3])"},
    {"narrow_copy", "write x.narrow(dim, start, length).clone()"},
    {"resolve_conj|resolve_neg|is_conj|is_neg", "x.conj() is computed at once: there is nothing to resolve"},
    {"chalf", "complex dtypes are c64 and c128: x.cfloat()"},
    {"short|char", "dtypes are f32 f64 f16 bf16 i64 i32 u8 bool c64 c128"},
    {"resize_|resize|set_", "write x = x.reshape(sizes), or x[:n]"},
    {"grad_fn", "graph x draws what a tensor was computed from"},
    {"clear", "xs[:] = [] empties a list; r = {} is an empty record"},
    {"update", "r = {**r, **other}; r.a = 1 sets a field"},
};

/* Arguments of ops. */
static const habit arguments[] = {
    {"inplace", "x.relu_() changes x itself; without _ the result is another tensor"},
    {"return_indices", "max_pool2d_with_indices(x, 2) gives values and places"},
    {"size_average|reduce", "write reduction=\"mean\", \"sum\" or \"none\""},
    {"ord", "vector_norm(x, ord) and matrix_norm(A, ord) take it; norm(x, p) is that of all elements"},
    {"driver|compute_uv|some",
     "leave it out: svd(A, full_matrices=false) gives the reduced factors, svdvals(A) the values"},
    {"output_size", "leave it out: the size follows from the repeats"},
    {"generator", "seed 42 seeds all random numbers"},
    {"fused|foreach|capturable|differentiable",
     "leave it out: a step is one pass over all parameters, on a GPU a part of a graph"},
    {"eps|raise_exception|nondet_tol|check_undefined_grad|check_batched_grad|fast_mode|check_forward_ad",
     "leave it out: gradcheck chooses its steps; tol=1e-4 is the error that it allows"},
    {"vectorize|strategy|strict", "leave it out: derivatives do not depend on how they are computed"},
    {"only_inputs|is_grads_batched", "leave it out: only gradients of the inputs are computed"},
    {"memory_format", "leave it out: kernels choose how they lay out what they compute with"},
};

const char *dlsh_foreign_argument(const char *name) { return HINT_FOR(arguments, name, strlen(name)); }

const char *dlsh_foreign_method(const char *name) { return HINT_FOR(methods, name, strlen(name)); }

/* ---------------------------------------------------------------- signs */

const char *dlsh_p_sign_hint(const char *text, size_t len, size_t at) {
    static const char compound[] = "assignments are = += -= *= /= //= %= **=; write x = x & y";
    static const struct {
        const char *sign, *hint;
    } signs[] = {
        {"<<=", compound},
        {">>=", compound},
        {"===", "write =="},
        {"!==", "write !="},
        {"@=", "assignments are = += -= *= /= //= %= **=; write x = x @ y"},
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
        {"...", "items of a list are [*xs], fields of a record {**r, a: 1}; ... stands in an index: x[..., 0]"},
        {"..", "a range is written range(0, 10), a slice x[0:10]"},
        {"??", "write x == none ? y : x"},
        {"?.", "a field is written x.f; x == none asks whether there is a value"},
        {"|>", "a function is called f(x), or behind its first argument x.f()"},
        {"%%", "write %"},
    };
    for (size_t i = 0; i < DLSH_COUNT(signs); i++) {
        size_t n = strlen(signs[i].sign);
        /* the sign was read in pieces: the error stands at one of them or after the last */
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
    for (size_t i = 0; !comment && i < DLSH_COUNT(prefixes); i++)
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

/* Words separated by |, and the name that they have here. */
static const habit synonyms[] = {
    {"axis", "dim"},
    {"axes", "dims"},
    {"keepdims", "keepdim"},
    {"learning_rate", "lr"},
    {"batch_size|batchsize", "batch"},
    {"num_epochs|n_epochs|max_epochs", "epochs"},
    {"num_steps|max_steps", "steps"},
    {"optimizer", "opt"},
    {"criterion|loss_fn", "loss"},
    {"requires_grad", "grad"},
    {"num_workers", "workers"},
    {"grad_clip|max_norm", "clip_norm"},
    {"push|add|push_back", "append"},
    {"clc|cls", "clear"},
    {"disp|echo|puts|println|cat", "print"},
    {"who|whos", "vars"},
    {"source|run_script", "read"},
    {"evaluate|test", "eval"},
    {"fit", "train"},
    {"history", "runs"},
    {"man", "help"},
    {"length|size|strlen", "len"},
    {"toupper|to_upper", "upper"},
    {"tolower|to_lower", "lower"},
    {"numpy|to_list", "tolist"},
    {"summary|describe", "show"},
    {"Adam", "adam"},
    {"SGD", "sgd"},
    {"manual_seed", "seed"},
    {"delete|rm", "unset"},
    {"load_state_dict", "load_state"},
    {"Tensor|array", "tensor"},
    {"concat|concatenate", "cat"},
    {"state_dict|named_parameters|named_buffers", "state"},
    {"children|modules", "summary"},
    {"mT", "T"},
    {"astype", "to"},
    {"type", "dtype"},
    {"nelement", "numel"},
    {"is_cuda", "device"},
    {"unbiased", "correction"},
    {"has_key", "keys"},
};

const char *dlsh_synonym(const char *word, const char *const *names, int n) {
    const char *here = HINT_FOR(synonyms, word, strlen(word));
    for (int k = 0; here && k < n; k++)
        if (!strcmp(names[k], here)) return names[k];
    return NULL;
}
