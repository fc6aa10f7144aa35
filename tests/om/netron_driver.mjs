// Opens an .om with netron's own code and prints what a person would see: graphs, nodes, attributes, weights.
// usage: node netron_driver.mjs NETRON_FOLDER MODEL.om
import * as crypto from 'crypto';
import * as fs from 'fs';
import * as path from 'path';
import * as url from 'url';

const [folder, file] = process.argv.slice(2);
const load = (name) => import(url.pathToFileURL(path.join(folder, name)).href);
const base = await load('base.js');
const om = await load('om.js');
const protoModule = await load('om-proto.js');
const data = new Uint8Array(fs.readFileSync(file));
const stream = { length: data.length, position: 0, peek: (size) => size === undefined ? data : data.subarray(0, size) };

class Metadata {
    constructor() {
        const types = JSON.parse(fs.readFileSync(path.join(folder, 'om-metadata.json'), 'utf-8'));
        this.types = new Map(types.map((type) => [type.name, type]));
    }
    type(name) {
        return this.types.get(name);
    }
}

let chosen = null;
const context = {
    stream,
    set: (type, value) => { chosen = value; return type; },
    metadata: async () => new Metadata(),
    require: async () => protoModule,
    get value() { return chosen; },
};
const factory = new om.ModelFactory();
const matched = await factory.match(context);
if (!matched) {
    throw new Error('netron does not recognise the file');
}
const model = await factory.open(context);
const digest = (values) => values ? crypto.createHash('sha256').update(values).digest('hex') : null;
// What the side bar prints for a small tensor; 64-bit integers and infinities are passed on as text.
const values = (tensor) => tensor.type.shape.dimensions.reduce((a, b) => a * Number(b), 1) > 4096 ? null :
    JSON.parse(JSON.stringify([new base.Tensor(tensor).value].flat(Infinity),
        (_, item) => typeof item === 'bigint' || (typeof item === 'number' && !Number.isFinite(item)) ? item.toString() : item));
const shown = model.modules.map((graph) => {
    const weights = new Map();
    const nodes = graph.nodes.map((node) => {
        for (const input of node.inputs) {
            for (const value of input.value) {
                if (value.initializer) {
                    weights.set(value.name, {
                        type: value.initializer.type.toString(),
                        layout: value.initializer.type.denotation,
                        bytes: value.initializer.values ? value.initializer.values.length : -1,
                        sha256: digest(value.initializer.values),
                        values: values(value.initializer),
                    });
                }
            }
        }
        return {
            name: node.name,
            type: node.type.name,
            attributes: node.attributes.map((attribute) => attribute.name),
            inputs: node.inputs.map((input) => input.value.map((value) => value.name)),
        };
    });
    return { name: graph.name, nodes, weights: Object.fromEntries(weights) };
});
process.stdout.write(JSON.stringify({ format: model.format, graphs: shown }));
